// python/compile/transforms_scope.cpp
#include "python/compile/transforms_scope.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "python/imported.h"
#include "python/interpreter/evaluate.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// Of a module that is loaded; null if it is not.
PyObject* globals_of(const char* module) {
  PyObject* loaded = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return loaded && PyModule_Check(loaded) ? PyModule_GetDict(loaded) : nullptr;
}

/// Of the dual levels of forward differentiation, which PyTorch counts in Python. -1: none.
long forward_level() {
  PyObject* globals = globals_of("torch.autograd.forward_ad");
  PyObject* level = globals ? PyDict_GetItemString(globals, "_current_level") : nullptr;
  return level && PyLong_Check(level) ? PyLong_AsLong(level) : -1;
}

/// What ends a transform, by its kind's name. `pop_dynamic_layer_stack_and_undo_to_depth` would end all of them,
/// but in PyTorch 2.11 it pops each layer twice.
struct TransformEnd {
  std::string_view kind;
  const char* function;
};

constexpr TransformEnd kTransformEnds[] = {
    {"Vmap", "_vmap_decrement_nesting"},
    {"Grad", "_grad_decrement_nesting"},
    {"Jvp", "_jvp_decrement_nesting"},
    {"Functionalize", "_func_decrement_nesting"},
};

void leave_innermost(const py::module_& functorch) {
  const auto kind = functorch.attr("peek_interpreter_stack")().attr("key")().attr("name").cast<std::string>();
  for (const TransformEnd& end : kTransformEnds)
    if (end.kind == kind) {
      functorch.attr(end.function)();
      return;
    }
  throw std::runtime_error("a transform of an unknown kind: " + kind);
}

/// By functions of PyTorch's: the types of its layers need headers that it does not bring along.
void leave_all(long forward_level_before) {
  const interpreter::Pause undriven;
  try {
    if (is_transforming()) {
      const auto functorch = imported("torch._C._functorch");
      while (is_transforming()) leave_innermost(functorch);
    }
    const py::object leave = imported("torch.autograd.forward_ad").attr("exit_dual_level");
    for (long level = forward_level(); level > forward_level_before; --level) leave();
    if (PyObject* globals = globals_of("torch._functorch.eager_transforms"))
      PyDict_SetItemString(globals, "JVP_NESTING", py::int_(0).ptr());
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("braze");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    PyErr_WriteUnraisable(nullptr);
  }
}

}  // namespace

bool is_transforming() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

TransformsScope::TransformsScope() : forward_level_before_(forward_level()) {}

TransformsScope::~TransformsScope() {
  at::impl::PythonTorchFunctionTLS::set_disabled_state(functions_before_);
  at::SavedTensorDefaultHooks::set_tls_state(hooks_before_);
  c10::AutogradState::set_tls_state(state_before_);
  if (is_transforming() || forward_level() != forward_level_before_) leave_all(forward_level_before_);
}

}  // namespace braze::python
