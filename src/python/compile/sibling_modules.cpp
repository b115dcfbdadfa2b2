// python/compile/sibling_modules.cpp
#include "python/compile/sibling_modules.h"

#include <unordered_set>
#include <vector>

#include "python/guards/storage_access.h"

namespace braze::python {

namespace {

/// The dict of a module's own modules; null: it is no module.
PyObject* inner_modules(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("_modules");  // Kept for good.
  PyObject* dict = PyType_Check(object) ? nullptr : guards::instance_dict(object);
  PyObject* inner = dict && PyDict_CheckExact(dict) ? PyDict_GetItemWithError(dict, name) : nullptr;
  return inner && PyDict_Check(inner) ? inner : nullptr;
}

/// What variables hold, and what their cells and the functions and bound methods among them do.
template <typename Visit>
void for_each_value(interpreter::Frame* frame, const Visit& visit) {
  const auto closure = [&](PyObject* cells) {
    for (Py_ssize_t i = 0; cells && i < PyTuple_GET_SIZE(cells); ++i) visit(PyCell_GET(PyTuple_GET_ITEM(cells, i)));
  };
  for (int slot = 0; slot < frame->f_code->co_nlocalsplus; ++slot) {
    PyObject* value = frame->localsplus[slot];
    if (value && PyCell_Check(value)) value = PyCell_GET(value);
    if (!value) continue;
    visit(value);
    if (PyMethod_Check(value)) visit(PyMethod_GET_SELF(value));
    if (PyFunction_Check(value)) closure(PyFunction_GET_CLOSURE(value));
  }
  const auto* function = reinterpret_cast<PyFunctionObject*>(interpreter::function_of(frame));
  if (function) closure(function->func_closure);
}

}  // namespace

void SiblingModules::count() {
  std::vector<PyObject*> left;
  std::unordered_set<PyObject*> seen;
  const auto add = [&](PyObject* object) {
    if (object && inner_modules(object) && seen.insert(object).second) left.push_back(object);
  };
  for_each_value(outermost_, add);
  while (!left.empty()) {
    PyObject* module = left.back();
    left.pop_back();
    ++counts_[Py_TYPE(module)];
    Py_ssize_t position = 0;
    PyObject* inner = nullptr;
    for (PyObject* modules = inner_modules(module); PyDict_Next(modules, &position, nullptr, &inner);) add(inner);
  }
}

bool SiblingModules::reach(interpreter::Frame* frame) {
  if (!std::exchange(is_counted_, true)) count();
  bool has_siblings = false;
  for (int slot = 0; slot < frame->f_code->co_nlocalsplus && !has_siblings; ++slot) {
    PyObject* value = frame->localsplus[slot];
    const auto found = value ? counts_.find(Py_TYPE(value)) : counts_.end();
    has_siblings = found != counts_.end() && found->second > 1;
  }
  return has_siblings;
}

}  // namespace braze::python
