#include "python/compile/promises.h"

#include <string_view>
#include <unordered_map>

#include "python/errors.h"
#include "python/guards/ref.h"
#include "python/guards/storage_access.h"

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

/// torch.compiler.allow_in_graph() notes functions down by their addresses, and forgets those that die. Nothing is
/// loaded for it that is not there.
bool is_allowed_by_torch(PyObject* function) noexcept {
  PyObject* rules = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._dynamo.trace_rules");
  PyObject* allowed = rules && PyModule_Check(rules)
                          ? PyDict_GetItemString(PyModule_GetDict(rules), "_allowed_callable_ids")
                          : nullptr;
  PyObject* dict = allowed ? guards::instance_dict(allowed) : nullptr;
  PyObject* addresses = dict ? PyDict_GetItemString(dict, "function_ids") : nullptr;
  if (!addresses || !PySet_Check(addresses) || PySet_GET_SIZE(addresses) == 0) return false;
  const guards::Ref address = guards::Ref::steal(PyLong_FromVoidPtr(function));
  const bool is_allowed = address && PySet_Contains(addresses, address.get()) == 1;
  if (!address) PyErr_Clear();
  return is_allowed;
}

/// torch.compiler.disable() has wrapped a function, for all that it calls, too. What is PyTorch's own stays
/// understood.
bool is_disabled_by_torch(PyObject* function) noexcept {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!dict || PyDict_GetItemString(dict, "_torchdynamo_disable") != Py_True ||
      PyDict_GetItemString(dict, "_torchdynamo_disable_recursive") == Py_False)
    return false;
  PyObject* original = PyDict_GetItemString(dict, "_torchdynamo_orig_callable");
  PyObject* name = original && PyFunction_Check(original)
                       ? PyDict_GetItemString(PyFunction_GET_GLOBALS(original), "__name__")
                       : nullptr;
  const char* module = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return module && !std::string_view(module).starts_with("torch.");
}

}  // namespace

Promise promise_about(PyObject* function) noexcept {
  const auto& all = all_promises();
  const auto found = all.find(function);
  if (found != all.end() && is_alive(found->second)) return found->second.promise;
  if (!PyFunction_Check(function)) return Promise::none;
  if (is_disabled_by_torch(function)) return Promise::disabled;
  return is_allowed_by_torch(function) ? Promise::in_graph : Promise::none;
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
