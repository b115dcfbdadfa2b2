// python/interpreter/watch/trusted_code.cpp
#include "python/interpreter/watch/trusted_code.h"

#include <algorithm>
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/tree_nodes.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr std::string_view kTreeModule = "torch.utils._pytree";

/// Modules whose functions may be called by code that is watched.
constexpr std::string_view entered_modules[] = {
    "torch._functorch.apis",     "torch._functorch.eager_transforms",
    "torch._functorch.vmap",     "torch._higher_order_ops.associative_scan",
    "torch.autograd.functional", kTreeModule};

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
  constexpr std::string_view others[] = {"_collections_abc",
                                         "abc",
                                         "braze",
                                         "codecs",
                                         "collections",
                                         "copy",
                                         "dataclasses",
                                         "enum",
                                         "importlib",
                                         "inspect",
                                         "logging",
                                         "operator",
                                         "os",
                                         "re",
                                         "threading",
                                         "torch",
                                         "types",
                                         "typing",
                                         "warnings",
                                         "weakref"};
  if (module.starts_with("namedtuple_")) return true;                // A named tuple's own code.
  if (module == "torch.fx.experimental.proxy_tensor") return false;  // It enters modes, and patches PyTorch.
  const std::string_view package = module.substr(0, module.find('.'));
  return std::ranges::find(others, package) != std::end(others);
}

std::string_view module_with(PyObject* globals) {
  return PyDict_CheckExact(globals) ? text_of(PyDict_GetItemString(globals, "__name__")) : std::string_view();
}

bool is_entered(PyObject* function) {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  const std::string_view module = module_with(object->func_globals);
  // Not torch.autograd.grad(): the engine adds gradients in place or not as it finds them referred to, so that the
  // version of what it gives would differ from eager's.
  return module.starts_with("torch.") && std::ranges::find(entered_modules, module) != std::end(entered_modules);
}

bool is_comprehension(const PyCodeObject* code) {
  constexpr std::string_view names[] = {"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"};
  return std::ranges::find(names, text_of(code->co_name)) != std::end(names);
}

/// What torch.utils._pytree says of how a container was built: made by its functions, and never changed.
bool is_tree_spec(PyObject* value) {
  return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) &&
         text_of(PyDict_GetItemString(guards::class_dict(Py_TYPE(value)), "__module__")) == kTreeModule;
}

/// A function that somebody has put in the place of one of those modules', as tensordict does with vmap's.
bool learn_replacement(Values& values, PyFunctionObject* function, PyObject* globals) {
  auto* object = reinterpret_cast<PyObject*>(function);
  if (!PyDict_CheckExact(globals) || PyDict_GetItemWithError(globals, function->func_name) != object) return false;
  guards::SourceTable& sources = values.sources();
  const guards::Source* module = sources.object(globals, module_with(globals));
  return values.learn(object, sources.dict_item(module, function->func_name));
}

}  // namespace

bool TrustedCode::is_trusted_code(const Frame* frame) {
  const std::string_view module = module_with(frame->f_globals);
  return std::ranges::find(entered_modules, module) != std::end(entered_modules) ||
         std::ranges::find(inner_modules, module) != std::end(inner_modules);
}

bool TrustedCode::call_trusted(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  // A default device is nothing to it: all tensors that these modules make are like others (zeros_like, new_zeros).
  if (!is_entered(function) || !open_closure(function)) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!opens_for_trusted(arguments[i])) return false;
  // A C function is handed leaves of trees as they are; what else is given to such code gets tracers.
  const bool hands_on = is_of_trees(function);
  const bool any_in_c = hands_on && std::any_of(arguments, arguments + count, [](PyObject* one) {
                          PyObject* function = behind_partials(one);
                          return PyCFunction_Check(function) || Py_IS_TYPE(function, &PyMethodDescr_Type);
                        });
  for (Py_ssize_t i = 0; any_in_c && i < count; ++i) watch_.sizes.settle_tensors_within(arguments[i]);
  keep_node_types(values_);
  return allow_made_result(Entry::around);
}

/// What a function of those modules that existed before closes over: the transform of some function.
bool TrustedCode::open_closure(PyObject* function) {
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
bool TrustedCode::opens_for_trusted(PyObject* value) {
  const TensorWorld& tensors = values_.tensors();
  if (PyFunction_Check(value)) return values_.is_known(value) && (!is_entered(value) || open_closure(value));
  if (tensors.may_call(value)) return true;
  // What torch.func.grad() imports, and its function closes over.
  if (PyModule_Check(value) && is_library(module_with(PyModule_GetDict(value)))) return values_.pin(value);
  if (PyObject* function = tensors.compiled_from(value)) {  // It is what it runs.
    if (!values_.pin(value)) return false;
    return values_.learn(function, values_.sources().object(function, "compiled")) && opens_for_trusted(function);
  }
  if (values_.is_made(value) && is_tree_spec(value)) return true;
  if (is_builtin_container(value) || guards::is_scalar(value) || tensors.is_tensor(value))
    return absorb(values_, value);
  if (!values_.is_known(value)) return false;
  if (Py_IS_TYPE(value, &PyMethod_Type)) return watch_.calls.learn_method(value);
  if (is_a(value, "functools.partial")) {
    guards::Ref parts[3];
    return watch_.partials.open_partial(value, parts) && opens_for_trusted(parts[0].get()) &&
           absorb(values_, parts[1].get()) && absorb(values_, parts[2].get());
  }
  if (values_.source_of(value) && opens_node(value)) return true;
  return absorb(values_, value) || (!PyType_Check(value) && watch_.classes.special_function(value, "__call__"));
}

/// An older object that torch.utils._pytree takes apart: by functions that are watched, or field by field.
bool TrustedCode::opens_node(PyObject* value) {
  if (is_taken_apart_by_user(Py_TYPE(value))) return watch_.classes.keep_class_of(value);
  PyObject *const fields = fields_of_node(Py_TYPE(value)), *const dict = guards::instance_dict(value);
  if (!fields || !dict || Py_TYPE(value)->tp_getattro != PyObject_GenericGetAttr) return false;
  Py_ssize_t at = 0;
  PyObject *name, *field;
  while (PyDict_Next(fields, &at, &name, &field)) {
    PyObject* const held = PyDict_GetItemWithError(dict, name);
    if (!held || !watch_.attributes.plain_attribute(value, name) || !opens_for_trusted(held)) return false;
  }
  return true;
}

void TrustedCode::keep_fresh(PyObject* value) {
  std::unordered_set<PyObject*> seen;
  keep_fresh(value, seen);
}

void TrustedCode::keep_fresh(PyObject* value, std::unordered_set<PyObject*>& seen) {
  if (!value || guards::is_scalar(value)) return;
  const bool is_container = is_builtin_container(value) && !PyAnySet_Check(value);
  // A container that the run made may have lain where this one lies.
  if (values_.is_known(value) && (!is_container || values_.source_of(value))) return;
  const bool is_spec = is_tree_spec(value);
  if (!is_container && !is_spec && !PyFunction_Check(value) && !values_.tensors().is_computed(value)) return;
  values_.make(value);
  if (!is_container || !seen.insert(value).second) return;
  const Ref items = Ref::steal(PyDict_Check(value) ? PyDict_Values(value) : PySequence_Fast(value, ""));
  for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    keep_fresh(PySequence_Fast_GET_ITEM(items.get(), i), seen);
}

/// A function or generator that the caller has made itself, which may lie where one of the run's lay before.
static bool is_made_by(const Frame* caller, const Frame* frame) {
  PyObject* const constants = caller ? caller->f_code->co_consts : nullptr;
  for (Py_ssize_t i = 0; constants && i < PyTuple_GET_SIZE(constants); ++i)
    if (PyTuple_GET_ITEM(constants, i) == reinterpret_cast<PyObject*>(frame->f_code)) return true;
  return false;
}

TrustedCode::Way TrustedCode::way_from_trusted(Frame* frame) {
  const Frame* caller = frame->previous;
  if (is_trusted_code(frame) || is_made_by(caller, frame)) return Way::unwatched;
  const bool by_trees = caller && module_with(caller->f_globals) == kTreeModule;
  if (by_trees && learn_constructor(frame)) return Way::watched;
  // Whose function nobody was given, and lies where one lay that the run made.
  if (is_comprehension(frame->f_code) && is_library(module_with(frame->f_globals))) return Way::unwatched;
  auto* const function = reinterpret_cast<PyObject*>(function_of(frame));
  if (values_.is_known(function)) return Way::watched;
  if (PyObject* const found = by_trees ? learn_node_function(values_, function) : nullptr)
    return Py_IS_TYPE(found, &PyMethod_Type) && !watch_.calls.learn_method(found) ? Way::unknown : Way::watched;
  if (is_library(module_with(frame->f_globals))) return Way::unwatched;
  const bool replaces =
      caller && is_trusted_code(caller) && learn_replacement(values_, function_of(frame), caller->f_globals);
  return replaces ? Way::watched : Way::unknown;
}

/// The `__init__` of an object that torch.utils._pytree makes anew: of a dataclass that is registered.
bool TrustedCode::learn_constructor(Frame* frame) {
  auto* const function = reinterpret_cast<PyObject*>(function_of(frame));
  PyObject* const self = frame->f_code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  const bool is_new = self && !values_.is_known(self) && fields_of_node(Py_TYPE(self)) &&
                      find_in_type(Py_TYPE(self), "__init__") == function;
  if (!is_new) return false;
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(self));
  const guards::Source* source = watch_.classes.class_source(type);
  if (!values_.learn(type, source)) return false;
  values_.make(self);
  return values_.learn(function, values_.sources().type_attribute(source, interned("__init__")));
}

void TrustedCode::keep_arguments(Frame* frame) {
  const PyCodeObject* code = frame->f_code;
  const int arguments = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                        !!(code->co_flags & CO_VARKEYWORDS);
  for (int i = 0; i < arguments; ++i) keep_fresh(frame->localsplus[i]);
}

bool TrustedCode::entered_from_trusted(Frame* frame) {
  keep_arguments(frame);
  return watch_.variables.learn_parameters(frame);
}

}  // namespace braze::interpreter
