// python/interpreter/watch/watcher_trusted.cpp: Python code of PyTorch's that is trusted, around code that is not.
//
// torch.func and torch.utils._pytree take containers apart, wrap tensors and call what the user gave them. What
// they read beside their arguments are tables of PyTorch's own. So their frames run unwatched, on arguments that
// are guarded all through; functions that they call and that are not theirs are watched like others.
#include <algorithm>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// Modules whose functions may be called by code that is watched.
constexpr std::string_view entered_modules[] = {
    "torch._functorch.apis",     "torch._functorch.eager_transforms",
    "torch._functorch.vmap",     "torch._higher_order_ops.associative_scan",
    "torch.autograd.functional", "torch.utils._pytree"};

/// What those are made of, also where the user's code has it too.
constexpr std::string_view inner_modules[] = {"contextlib",
                                              "functools",
                                              "torch._functorch.predispatch",
                                              "torch._functorch.pyfunctorch",
                                              "torch._functorch.utils",
                                              "torch.autograd.forward_ad",
                                              "torch.autograd.grad_mode",
                                              "torch.autograd.graph",
                                              "torch.utils._contextlib"};

/// What those call beside that, unless it is what the user gave them: parts of PyTorch and of the standard library.
bool is_library(std::string_view module) {
  constexpr std::string_view others[] = {
      "_collections_abc", "abc",      "codecs",   "collections", "copy", "dataclasses", "enum",  "importlib",
      "inspect",          "logging",  "operator", "os",          "re",   "threading",   "torch", "types",
      "typing",           "warnings", "weakref"};
  if (module.starts_with("namedtuple_")) return true;                // A named tuple's own code.
  if (module == "torch.fx.experimental.proxy_tensor") return false;  // It enters modes, and patches PyTorch.
  const std::string_view package = module.substr(0, module.find('.'));
  return std::ranges::find(others, package) != std::end(others);
}

std::string_view module_of(PyObject* globals) {
  return PyDict_CheckExact(globals) ? text_of(PyDict_GetItemString(globals, "__name__")) : std::string_view();
}

bool is_entered(PyObject* function) {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  const std::string_view module = module_of(object->func_globals);
  // Not torch.autograd.grad(): the engine adds gradients in place or not as it finds them referred to, so that the
  // version of what it gives would differ from eager's.
  return module.starts_with("torch.") && std::ranges::find(entered_modules, module) != std::end(entered_modules);
}

/// What torch.utils._pytree says of how a container was built: made by its functions, and never changed.
bool is_tree_spec(PyObject* value) {
  return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) &&
         text_of(PyDict_GetItemString(guards::class_dict(Py_TYPE(value)), "__module__")) == "torch.utils._pytree";
}

}  // namespace

/// Has the instruction call another function: one of braze's that means the same, in code that can be watched. That
/// function calls the original itself if it wants to.
bool Watcher::call_stand_in(PyObject* function, PyObject* stand_in) {
  PyObject* callee = *callee_;
  const bool is_method = Py_IS_TYPE(callee, &PyMethod_Type) && PyMethod_GET_FUNCTION(callee) == function;
  if (callee != function && !is_method) return abandon("a call that is not understood", function);
  if (!values_.pin(function)) return abandon("a function of unknown origin", function);
  PyObject* other = is_method ? PyMethod_New(stand_in, PyMethod_GET_SELF(callee)) : Py_NewRef(stand_in);
  if (!other) return abandon("no memory");
  values_.learn(stand_in, values_.sources().object(stand_in, "braze's form of a function"));
  if (is_method) values_.make(other);
  Py_SETREF(*callee_, other);
  activities_.back().is_direct = true;
  return allow(Entry::known);
}

/// A class in the place of another one, or a Python function in that of one written in C, which is about to be
/// called.
bool Watcher::put_stand_in(PyObject* callable, PyObject* stand_in) {
  if (!values_.pin(callable)) return abandon("a function of unknown origin", callable);
  values_.learn(stand_in, values_.sources().object(stand_in, "braze's form of a function"));
  Py_SETREF(*callee_, Py_NewRef(stand_in));
  return true;
}

/// In the place of a partial of the function, a partial of the stand-in with the same arguments.
bool Watcher::put_stand_in_partial(guards::Ref (&parts)[3], PyObject* stand_in) {
  PyObject* partial = *callee_;
  const Py_ssize_t count = PyTuple_GET_SIZE(parts[1].get());
  const Ref all = Ref::steal(PyTuple_New(count + 1));
  if (!all) return abandon("no memory");
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(stand_in));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(parts[1].get(), i)));
  const Ref other =
      Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(partial)), all.get(), parts[2].get()));
  if (!other || !put_stand_in(parts[0].get(), stand_in)) return abandon("no memory");
  parts[0] = guards::Ref::borrow(stand_in);
  values_.make(other.get());
  Py_SETREF(*callee_, Py_NewRef(other.get()));
  return true;
}

bool Watcher::is_trusted_code(const Frame* frame) {
  const std::string_view module = module_of(frame->f_globals);
  return std::ranges::find(entered_modules, module) != std::end(entered_modules) ||
         std::ranges::find(inner_modules, module) != std::end(inner_modules);
}

/// Calls a function of those modules. False, and no abandonment, if it is none, or is given what cannot be guarded
/// all through: then it is watched like others.
bool Watcher::call_trusted(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  if (!is_entered(function) || !open_closure(function)) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!opens_for_trusted(arguments[i])) return false;
  return allow_made_result(Entry::around);
}

/// What a function of those modules that existed before closes over: the transform of some function.
bool Watcher::open_closure(PyObject* function) {
  const guards::Source* source = values_.source_of(function);
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(function)->func_closure;
  if (!source || !closure) return true;  // Made by the run, of what it knows.
  const Ref names = Ref::steal(PyCode_GetFreevars(
      reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject *cell = PyTuple_GET_ITEM(closure, i), *value = PyCell_GET(cell);
    if (values_.effects().wrote(cell, nullptr)) return false;
    const guards::Source* contents = values_.sources().closure_variable(source, static_cast<uint32_t>(i),
                                                                        text_of(PyTuple_GET_ITEM(names.get(), i)));
    values_.learn_cell(cell, contents);
    if (!value || !values_.learn(value, contents) || !opens_for_trusted(value)) return false;
  }
  return true;
}

/// Guards what that code may read of `value`, or call.
bool Watcher::opens_for_trusted(PyObject* value) {
  const TensorWorld& tensors = values_.tensors();
  if (PyFunction_Check(value)) return values_.is_known(value) && (!is_entered(value) || open_closure(value));
  if (tensors.may_call(value)) return true;
  if (values_.is_made(value) && is_tree_spec(value)) return true;
  if (is_builtin_container(value) || guards::is_scalar(value) || tensors.is_tensor(value))
    return values_.absorb(value);
  if (!values_.is_known(value)) return false;
  if (Py_IS_TYPE(value, &PyMethod_Type)) return learn_method(value);
  if (is_a(value, "functools.partial")) {
    guards::Ref parts[3];
    return open_partial(value, parts) && opens_for_trusted(parts[0].get()) && values_.absorb(parts[1].get()) &&
           values_.absorb(parts[2].get());
  }
  return values_.absorb(value) || (!PyType_Check(value) && special_function(value, "__call__"));
}

/// What that code gives to others, or gives back, and nobody knows, it has made.
void Watcher::keep_fresh(PyObject* value) {
  if (!value || guards::is_scalar(value) || values_.is_known(value)) return;
  const bool is_container = is_builtin_container(value) && !PyAnySet_Check(value);
  const bool is_spec = is_tree_spec(value);
  if (!is_container && !is_spec && !PyFunction_Check(value) && !values_.tensors().is_computed(value)) return;
  values_.make(value);
  if (!is_container) return;
  const Ref items = Ref::steal(PyDict_Check(value) ? PyDict_Values(value) : PySequence_Fast(value, ""));
  for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    keep_fresh(PySequence_Fast_GET_ITEM(items.get(), i));
}

/// What that code enters: more of it, or what it was given to call.
Watcher::Way Watcher::way_from_trusted(Frame* frame) {
  if (is_trusted_code(frame)) return Way::unwatched;
  if (values_.is_known(reinterpret_cast<PyObject*>(function_of(frame)))) return Way::watched;
  return is_library(module_of(frame->f_globals)) ? Way::unwatched : Way::unknown;
}

/// Before what that code was given to call.
bool Watcher::entered_from_trusted(Frame* frame) {
  const PyCodeObject* code = frame->f_code;
  const int arguments = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                        !!(code->co_flags & CO_VARKEYWORDS);
  for (int i = 0; i < arguments; ++i) keep_fresh(frame->localsplus[i]);
  return learn_parameters(frame);
}

}  // namespace braze::interpreter
