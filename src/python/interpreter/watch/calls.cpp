// python/interpreter/watch/calls.cpp
#include "python/interpreter/watch/calls.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// functools.cached_property computes under a lock, which 3.12 no longer has: a replay does without. Anywhere else
/// a lock keeps others away from what a replay would do without it.
bool is_cached_property_code(const Frame* frame) {
  PyObject* functools = PyDict_GetItemString(PyImport_GetModuleDict(), "functools");
  return functools && PyModule_Check(functools) && PyModule_GetDict(functools) == frame->f_globals &&
         text_of(frame->f_code->co_qualname) == "cached_property.__get__";
}

/// As functools.wraps tells.
bool is_wrapper_of(PyObject* function, PyObject* wrapped) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return dict && PyDict_GetItemString(dict, "__wrapped__") == wrapped;
}

}  // namespace

bool Calls::enter_with(PyObject* manager) {
  if (!values_.is_known(manager)) return abandon("`with` an object of unknown origin", manager);
  if (is_a(manager, "_thread.RLock") && is_cached_property_code(PyThreadState_Get()->cframe->current_frame)) {
    values_.effects().locks().take(manager);
    return true;
  }
  if (is_a(manager, "torch.device")) return enter_device(manager);
  if (!watch_.classes.special_function(manager, "__enter__") ||
      !watch_.classes.special_function(manager, "__exit__"))
    return abandon("a context manager that is not written in Python", manager);
  return allow(Entry::known);
}

/// The CPU, where nothing else is the default: the mode that it would be makes no difference, and is left out.
bool Calls::enter_device(PyObject* device) {
  PyObject* enter = member_descriptor(Py_TYPE(device), "__enter__");
  PyObject* stand_in = enter ? values_.tensors().stand_in_for(enter) : nullptr;
  if (!stand_in || !run_.callee || values_.tensors().modes().has_default_device() ||
      !values_.tensors().is_cpu(device))
    return abandon("a device as a context", device);
  values_.learn(stand_in, values_.sources().object(stand_in, "a device as a context"));
  Py_SETREF(*run_.callee, Py_NewRef(stand_in));
  return enter_with(stand_in);
}

namespace {

/// Operators take lists of tensors, too.
bool wants_history_within(const TensorWorld& tensors, PyObject* const* arguments, Py_ssize_t count) {
  return std::any_of(arguments, arguments + count, [&](PyObject* argument) {
    if (!PyList_CheckExact(argument) && !PyTuple_CheckExact(argument)) return tensors.wants_history(&argument, 1);
    return tensors.wants_history(PySequence_Fast_ITEMS(argument), PySequence_Fast_GET_SIZE(argument));
  });
}

}  // namespace

void Calls::give_factors(PyObject* callable, PyObject** top, PyObject* keywords) {
  const bool is_method = Py_IS_TYPE(callable, &PyMethodDescr_Type);
  if (!is_method && !PyCFunction_Check(callable)) return;
  const std::string_view name =
      is_method ? text_of(PyDescr_NAME(callable)) : reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  const Py_ssize_t count = PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::string_view keyword = text_of(PyTuple_GET_ITEM(keywords, i));
    const bool is_factor = keyword == "alpha" || keyword == "beta" ||
                           (keyword == "value" && (name.starts_with("addc") || name.starts_with("_foreach_addc")));
    PyObject*& slot = top[i - count];
    if (!is_factor || !values_.tensors().is_tensor(slot)) continue;
    if (Ref number = values_.tensors().number_of(slot)) Py_SETREF(slot, number.release());
  }
}

bool Calls::call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  TensorWorld& tensors = values_.tensors();
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    if (!learn_method(callable)) return false;
    std::vector<PyObject*> all{PyMethod_GET_SELF(callable)};
    all.insert(all.end(), arguments, arguments + count);
    return call(PyMethod_GET_FUNCTION(callable), all.data(), count + 1);
  }
  if (const Promise promise = tensors.promise_about(callable); promise != Promise::none)
    return call_promised(promise, callable, arguments, count);
  if (PyFunction_Check(callable)) {
    if (!values_.is_known(callable)) return abandon("a function of unknown origin", callable);
    if (Arrays::is_function(callable)) return watch_.arrays.call(callable, arguments, count);
    if (watch_.random_numbers.draws_below(callable, arguments, count))
      return watch_.random_numbers.call_below(arguments[0], arguments[1]);
    if (watch_.library.calls_signature(callable, count)) return watch_.library.call_signature(arguments[0]);
    if (Library::is_dispatch(callable) && count == 1) return watch_.library.call_dispatch(callable, arguments[0]);
    if (Library::makes_named_tuple(callable)) return watch_.library.call_named_tuple(callable, arguments, count);
    // The code of a stand-in means what it stands in for where it calls that.
    if (PyObject* stand_in = run_.callee ? tensors.stand_in_for(callable) : nullptr)
      if (PyThreadState_Get()->cframe->current_frame->f_globals != PyFunction_GET_GLOBALS(stand_in) ||
          is_wrapper_of(callable, stand_in))
        return watch_.stand_ins.call_stand_in(callable, stand_in);
    if (watch_.trusted_code.call_trusted(callable, arguments, count)) return true;
    if (abandoned()) return false;
    const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable));
    activity().is_direct = true;
    return code->co_flags & CO_GENERATOR ? allow_made_result(Entry::known) : allow(Entry::known);
  }
  if (is_a(callable, "functools._lru_cache_wrapper")) return watch_.library.call_cached(callable, arguments, count);
  const bool is_descriptor =
      Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
  if (is_descriptor && count > 0) {
    PyObject* stand_in = run_.callee && *run_.callee == callable ? tensors.stand_in_for(callable) : nullptr;
    if (stand_in && PyFunction_Check(stand_in))
      return watch_.stand_ins.put_stand_in(callable, stand_in) && call(stand_in, arguments, count);
    return watch_.methods.call_descriptor(callable, arguments[0], arguments + 1, count - 1);
  }
  if (Arrays::is_function(callable) && values_.is_known(callable))
    return watch_.arrays.call(callable, arguments, count);
  if (PyCFunction_Check(callable)) return watch_.builtins.call(callable, arguments, count);
  if (!values_.is_known(callable)) return abandon("an object of unknown origin is called", callable);
  if (PyObject* function = tensors.compiled_from(callable)) {
    values_.pin(callable);
    values_.learn(function, values_.sources().object(function, "compiled"));
    return call(function, arguments, count);
  }
  if (PyType_Check(callable)) {
    PyObject* stand_in = run_.callee && *run_.callee == callable ? tensors.stand_in_for(callable) : nullptr;
    if (stand_in && !watch_.stand_ins.put_stand_in(callable, stand_in)) return false;
    if (stand_in && PyFunction_Check(stand_in)) return call(stand_in, arguments, count);
    return watch_.instances.call_class(stand_in ? stand_in : callable, arguments, count);
  }
  if (tensors.may_call(callable)) return absorb_all(arguments, count, callable) && allow_made_result(Entry::tensor);
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type))
    return watch_.methods.call_bound_slot(callable, arguments, count);
  // Those of weakref's dicts, too, which are of a class in Python.
  if (PyWeakref_CheckRef(callable) && Py_TYPE(callable)->tp_call == _PyWeakref_RefType.tp_call &&
      (PyWeakref_CheckRefExact(callable) || watch_.classes.keep_class_of(callable)))
    return watch_.library.call_weak_reference(callable);
  if (std::string_view(Py_TYPE(callable)->tp_name) == "functools.partial" && is_exact_builtin(Py_TYPE(callable)))
    return watch_.partials.call_partial(callable, arguments, count);
  if (run_.callee && *run_.callee == callable)
    if (const Ref other = tensors.called_instead(callable, arguments, count, run_.keyword_names))
      return watch_.stand_ins.put_stand_in(callable, other.get()) && call(other.get(), arguments, count);
  const bool is_script = tensors.is_plain_script(callable);
  if (is_script || tensors.is_operator(callable)) {
    const TensorWorld::PythonGradient gradient = tensors.python_gradient_of(callable);
    if (gradient.is_there && wants_history_within(tensors, arguments, count)) {
      if (!gradient.form) return abandon(Break::operator_with_python_gradient);
      return watch_.stand_ins.call_with_callable(callable, gradient.form, arguments, count);
    }
    return values_.pin(callable) && absorb_all(arguments, count, callable) &&
           allow_made_result(is_script ? Entry::tensor : Entry::trusted);
  }
  if (PyObject* origin = watch_.generic_types.builtin_origin(callable))
    return watch_.instances.call_class(origin, arguments, count);
  if (PyObject* call_of_class = class_entry(reinterpret_cast<PyObject*>(Py_TYPE(callable)), "__call__"))
    if (PyObject* function = tensors.compiled_from(call_of_class);
        function && run_.callee && *run_.callee == callable) {
      if (!watch_.classes.keep_special(callable, {"__call__"})) return false;
      values_.learn(function, values_.sources().object(function, "compiled"));
      return watch_.stand_ins.call_bound(function, callable, arguments, count);
    }
  if (abandoned()) return false;
  if (Partials::is_getter(callable)) return watch_.partials.call_getter(callable, arguments, count);
  if (watch_.classes.special_function(callable, "__call__")) {
    activity().is_direct = true;
    return allow(Entry::known);
  }
  return abandon("a call that is not understood", callable);
}

/// Of the package braze, whose functions make no tensors.
static bool is_brazes_own(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  PyObject* globals = reinterpret_cast<PyFunctionObject*>(function)->func_globals;
  return PyDict_CheckExact(globals) && text_of(PyDict_GetItemString(globals, "__name__")).starts_with("braze.");
}

bool Calls::call_promised(Promise promise, PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (promise == Promise::disabled) {
    PyObject* dict = guards::instance_dict(callable);
    PyObject* reason = dict ? PyDict_GetItemString(dict, "reason") : nullptr;
    if (!reason && dict) reason = PyDict_GetItemString(dict, "__qualname__");
    return abandon("a function marked braze.compiler.disable", reason);
  }
  if (!values_.pin(callable)) return abandon("a function of unknown origin", callable);
  if (values_.tensors().modes().has_default_device() && !is_brazes_own(callable))
    return abandon(Break::default_device_aside);
  activity().entry = Entry::trusted;
  activity().makes_result = true;
  // It runs unwatched, on the tensors themselves.
  for (Py_ssize_t i = 0; i < count; ++i) watch_.sizes.settle_tensors_within(arguments[i]);
  if (promise == Promise::in_graph) return absorb_all(arguments, count, callable);
  activity().makes_constant = true;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!values_.is_known(arguments[i])) return abandon("an argument of unknown origin", arguments[i]);
  return true;
}

bool Calls::learn_method(PyObject* callable) {
  const guards::Source* source = Py_IS_TYPE(callable, &PyMethod_Type) ? values_.source_of(callable) : nullptr;
  if (!source) return true;
  guards::SourceTable& sources = values_.sources();
  return (values_.learn(PyMethod_GET_FUNCTION(callable), sources.member(source, guards::Member::method_function)) &&
          values_.learn(PyMethod_GET_SELF(callable), sources.member(source, guards::Member::method_self))) ||
         abandon("a method that cannot be guarded", callable);
}

}  // namespace braze::interpreter
