// python/guards/warning_filters.cpp
#include "python/guards/warning_filters.h"

#include "python/guards/kinds.h"
#include "support/error.h"

namespace braze::guards {

namespace {

bool is_error(PyObject* action) noexcept {
  return action && PyUnicode_Check(action) && PyUnicode_CompareWithASCIIString(action, "error") == 0;
}

/// An action, a pattern, a class, a pattern and a line.
bool may_make_an_error(PyObject* filter, PyObject* category) noexcept {
  if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5) return true;
  if (!is_error(PyTuple_GET_ITEM(filter, 0))) return false;
  PyObject* of = PyTuple_GET_ITEM(filter, 2);
  return !PyType_Check(of) || !PyType_Check(category) ||
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(category), reinterpret_cast<PyTypeObject*>(of)) != 0;
}

/// The module's own, or `list.append`.
bool is_plain(PyObject* shows, PyObject* entries) noexcept {
  if (!shows) return false;
  if (PyFunction_Check(shows)) return PyFunction_GET_GLOBALS(shows) == entries;
  return PyCFunction_Check(shows) && PyCFunction_GET_SELF(shows) && PyList_CheckExact(PyCFunction_GET_SELF(shows));
}

}  // namespace

PyObject* globals_of_warnings() noexcept {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "warnings");
  return module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

PyObject* list_that_takes_warnings() noexcept {
  PyObject* entries = globals_of_warnings();
  PyObject* shows = entries ? PyDict_GetItemString(entries, "_showwarnmsg_impl") : nullptr;
  return shows && PyCFunction_Check(shows) ? PyCFunction_GET_SELF(shows) : nullptr;
}

bool may_do_more(PyObject* category) noexcept {
  PyObject* entries = globals_of_warnings();
  PyObject* filters = entries ? PyDict_GetItemString(entries, "filters") : nullptr;
  if (!filters || !PyList_Check(filters) || is_error(PyDict_GetItemString(entries, "defaultaction"))) return true;
  for (const char* name : {"showwarning", "_showwarnmsg", "_showwarnmsg_impl", "formatwarning"})
    if (!is_plain(PyDict_GetItemString(entries, name), entries)) return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i)
    if (may_make_an_error(PyList_GET_ITEM(filters, i), category)) return true;
  return false;
}

void GuardSet::warnings_are_shown(PyObject* category) {
  add({.kind = GuardKind::warning_filters, .object = Ref::borrow(category)});
}

bool test_warning_filters(const Expected& expected, PyObject* const*, const Call&) noexcept {
  return !may_do_more(expected.object);
}
std::string explain_warning_filters(const Expected& expected, PyObject* const* values, const Call&, const Texts&) {
  const char* name =
      PyType_Check(expected.object) ? reinterpret_cast<PyTypeObject*>(expected.object)->tp_name : "?";
  return concat("a warning of class ", name, " does no more than being shown", values ? ", did not" : "");
}

}  // namespace braze::guards
