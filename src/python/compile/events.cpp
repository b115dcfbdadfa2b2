#include "python/compile/events.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "python/interpreter/evaluate.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// Who listens, or null. Beside the bits in the header: one for the process, guarded by the GIL.
PyObject* listener = nullptr;

void listen(py::object callable, const std::vector<std::string>& names) {
  uint32_t bits = 0;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(event_names, name);
    if (found == event_names.end()) throw UserError(concat("braze: no event is named \"", name, "\""));
    bits |= 1u << (found - event_names.begin());
  }
  detail::enabled_events = callable.is_none() ? 0 : bits;
  PyObject* const before = std::exchange(listener, callable.is_none() ? nullptr : callable.release().ptr());
  Py_XDECREF(before);
}

}  // namespace

void emit(Event event, std::string_view text) noexcept {
  if (!is_enabled(event) || !listener) return;
  // Logging is Python code, and none of the user's program.
  const interpreter::Pause pause;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const py::object held = py::reinterpret_borrow<py::object>(listener);  // It may be replaced meanwhile.
  const std::string_view name = event_names[static_cast<size_t>(event)];
  const auto to_object = [](std::string_view one) {
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(one.data(), static_cast<Py_ssize_t>(one.size()), "replace"));
  };
  const py::object name_object = to_object(name), text_object = to_object(text);
  PyObject* const result = name_object && text_object ? PyObject_CallFunctionObjArgs(held.ptr(), name_object.ptr(),
                                                                                     text_object.ptr(), nullptr)
                                                      : nullptr;
  if (!result) PyErr_WriteUnraisable(held.ptr());
  Py_XDECREF(result);
  PyErr_Restore(type, value, traceback);
}

void add_events(py::module_& module) {
  module.def("listen", &listen, py::arg("callable"), py::arg("names"), "See python/compile/events.h.");
  py::tuple names(event_names.size());
  for (size_t k = 0; k < names.size(); ++k) names[k] = py::str(event_names[k].data(), event_names[k].size());
  module.attr("event_names") = names;
}

}  // namespace braze::python
