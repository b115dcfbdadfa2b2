#include "python/guards/saved_tensor_hooks.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/PyInterpreter.h>

#include <iterator>

namespace braze::guards {

namespace {

struct Known {
  const char *module, *name;
  SavedTensorHooks hooks;
};
constexpr Known kKnown[] = {
    {"torch.utils.checkpoint", "_checkpoint_hook.__init__.<locals>.pack_hook", SavedTensorHooks::checkpoint},
    {"torch.utils.checkpoint", "_recomputation_hook.__init__.<locals>.pack_hook", SavedTensorHooks::recomputation},
    {"torch.autograd.graph", "save_on_cpu.__init__.<locals>.pack_to_cpu", SavedTensorHooks::none},
};

/// By its globals, which no other module's function has.
bool is_defined_in(PyObject* function, const char* module) {
  PyObject* loaded = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return loaded && PyModule_Check(loaded) && PyModule_GetDict(loaded) == PyFunction_GET_GLOBALS(function);
}

}  // namespace

PyObject* pack_hook() noexcept {
  const auto& stack = at::SavedTensorDefaultHooks::get_tls_state().stack;
  if (stack.empty()) return nullptr;
  PyObject* function = stack.top().first.ptr(getPyInterpreter());
  if (!function || !PyFunction_Check(function)) return nullptr;
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* wrapped = attributes ? PyDict_GetItemString(attributes, "_torchdynamo_orig_callable") : nullptr;
  return wrapped && PyFunction_Check(wrapped) ? wrapped : function;
}

SavedTensorHooks saved_tensor_hooks() noexcept {
  if (at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return SavedTensorHooks::none;
  PyObject* function = pack_hook();
  if (!function) return SavedTensorHooks::other;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_qualname;
  for (const Known& known : kKnown)
    if (PyUnicode_CompareWithASCIIString(name, known.name) == 0 && is_defined_in(function, known.module))
      return known.hooks;
  return SavedTensorHooks::other;
}

}  // namespace braze::guards
