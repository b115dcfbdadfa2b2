#include "python/compile/promises.h"

#include <unordered_map>

#include "python/errors.h"

namespace braze::python {

namespace py = pybind11;

namespace {

struct Said {
  py::object function;  ///< A weak reference: another object may get its address.
  Promise promise;
};

/// One for the process, as torch's is; guarded by the GIL. Never destroyed: the interpreter may be gone
/// first.
std::unordered_map<PyObject*, Said>& all_promises() {
  static auto& all = *new std::unordered_map<PyObject*, Said>;  // NOLINT
  return all;
}

bool is_alive(const Said& said) {
  return PyWeakref_GET_OBJECT(said.function.ptr()) != Py_None;
}

void promise(py::handle function, Promise promise) {
  auto& all = all_promises();
  std::erase_if(all, [](const auto& entry) { return !is_alive(entry.second); });
  all.insert_or_assign(function.ptr(), Said{py::weakref(function), promise});
}

}  // namespace

Promise promise_about(PyObject* function) noexcept {
  const auto& all = all_promises();
  if (all.empty()) return Promise::none;
  const auto found = all.find(function);
  return found != all.end() && is_alive(found->second) ? found->second.promise : Promise::none;
}

void add_promises(py::module_& module) {
  module.def(
      "allow_in_graph", [](py::handle function) { promise(function, Promise::in_graph); }, py::arg("function"),
      "Calls of the function are recorded by the operators that they reach, whatever Python runs meanwhile.");
  module.def(
      "assume_constant_result", [](py::handle function) { promise(function, Promise::constant); },
      py::arg("function"), "What a call gives in a capture is what it gives in every replay.");
}

}  // namespace braze::python
