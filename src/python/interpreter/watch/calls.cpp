// python/interpreter/watch/calls.cpp
#include "python/interpreter/watch/calls.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "python/guards/deque.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
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

/// Functions that take the items of one argument, and do nothing else with it.
bool goes_through(std::string_view name) {
  return name == "sum" || name == "any" || name == "all" || name == "max" || name == "min" || name == "sorted";
}

/// Combinations of flags are made when they are first asked for, and kept.
bool is_code_of_enums(const Frame* frame) {
  PyObject* enums = PyDict_GetItemString(PyImport_GetModuleDict(), "enum");
  return enums && PyModule_Check(enums) && PyModule_GetDict(enums) == frame->f_globals;
}

/// Class methods of builtin classes that compute on their arguments alone.
const Names& pure_class_methods() {
  static const Names names = {"from_bytes", "from_iterable", "fromhex", "fromkeys"};
  return names;
}

/// Builtin classes whose `__new__` makes an instance of any subclass out of its arguments alone.
bool has_plain_new(PyTypeObject* type) {
  return type == &PyBaseObject_Type || type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type ||
         type == &PyODict_Type || type == &PyProperty_Type;
}

/// A method that `type` itself has under this name, bound to a class.
bool is_method_of_type(const PyCFunctionObject* function, const char* name) {
  PyObject* own = PyDict_GetItemString(guards::class_dict(&PyType_Type), name);
  return own && Py_IS_TYPE(own, &PyMethodDescr_Type) &&
         reinterpret_cast<PyMethodDescrObject*>(own)->d_method == function->m_ml;
}

bool is_check_of_type(const PyCFunctionObject* function) {
  return is_method_of_type(function, "__instancecheck__") || is_method_of_type(function, "__subclasscheck__");
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
    values_.effects().take_lock(manager);
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
  if (!stand_in || !run_.callee || values_.tensors().has_default_device() || !values_.tensors().is_cpu(device))
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
    if (watch_.library.calls_signature(callable, count)) return watch_.library.call_signature(arguments[0]);
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
  if (is_descriptor && count > 0)
    return watch_.methods.call_descriptor(callable, arguments[0], arguments + 1, count - 1);
  if (PyCFunction_Check(callable)) return call_builtin(callable, arguments, count);
  if (!values_.is_known(callable)) return abandon("an object of unknown origin is called", callable);
  if (PyObject* function = tensors.compiled_from(callable)) {
    values_.pin(callable);
    return (values_.learn(function, values_.sources().object(function, "compiled")) &&
            call(function, arguments, count)) ||
           abandon("a compiled function that cannot be guarded", function);
  }
  if (PyType_Check(callable)) {
    PyObject* stand_in = run_.callee && *run_.callee == callable ? tensors.stand_in_for(callable) : nullptr;
    if (stand_in && !watch_.stand_ins.put_stand_in(callable, stand_in)) return false;
    return watch_.instances.call_class(stand_in ? stand_in : callable, arguments, count);
  }
  if (tensors.may_call(callable)) return absorb_all(arguments, count, callable) && allow_made_result(Entry::tensor);
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type))
    return watch_.methods.call_bound_slot(callable, arguments, count);
  if (PyWeakref_CheckRefExact(callable)) return watch_.library.call_weak_reference(callable);
  if (std::string_view(Py_TYPE(callable)->tp_name) == "functools.partial" && is_exact_builtin(Py_TYPE(callable)))
    return watch_.partials.call_partial(callable, arguments, count);
  if (Library::is_numpy_function(callable)) return watch_.library.call_numpy(callable, arguments, count);
  if (tensors.is_plain_script(callable))
    return values_.pin(callable) && absorb_all(arguments, count, callable) && allow_made_result(Entry::tensor);
  if (tensors.is_operator(callable)) {
    if (tensors.has_python_gradient(callable) && wants_history_within(tensors, arguments, count))
      return abandon(Break::operator_with_python_gradient);
    return values_.pin(callable) && absorb_all(arguments, count, callable) && allow_made_result(Entry::trusted);
  }
  if (PyObject* origin = watch_.generic_types.builtin_origin(callable))
    return watch_.instances.call_class(origin, arguments, count);
  if (abandoned()) return false;
  if (is_a(callable, "operator.itemgetter") || is_a(callable, "operator.attrgetter"))
    return watch_.partials.call_getter(callable, arguments, count);
  if (is_a(callable, "operator.methodcaller"))
    return watch_.partials.call_method_caller(callable, arguments, count);
  if (watch_.classes.special_function(callable, "__call__")) {
    activity().is_direct = true;
    return allow(Entry::known);
  }
  return abandon("a call that is not understood", callable);
}

bool Calls::call_promised(Promise promise, PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (promise == Promise::disabled) {
    PyObject* dict = guards::instance_dict(callable);
    PyObject* reason = dict ? PyDict_GetItemString(dict, "reason") : nullptr;
    if (!reason && dict) reason = PyDict_GetItemString(dict, "__qualname__");
    return abandon("a function marked braze.compiler.disable", reason);
  }
  if (!values_.pin(callable)) return abandon("a function of unknown origin", callable);
  if (values_.tensors().has_default_device()) return abandon(Break::default_device_aside);
  activity().entry = Entry::trusted;
  activity().makes_result = true;
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

bool Calls::put_default_device(PyObject* function) {
  if (values_.tensors().asks_for_torch_function(function)) {
    // Natively it would be entered again, without the mode; what follows a break in it would not know.
    if (run_.root && run_.activities.size() == 1) return abandon(Break::default_device_aside);
    if (!run_.without_default_device) run_.without_default_device = run_.activities.size();
  } else if (!run_.without_default_device) {
    activity().on_default_device = values_.tensors().enter_default_device(function);
  }
  return true;
}

bool Calls::call_builtin(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  auto* builtin = reinterpret_cast<PyCFunctionObject*>(function);
  const std::string_view name = builtin->m_ml->ml_name, module = module_of(function);
  PyObject* self = PyCFunction_GET_SELF(function);
  if (values_.tensors().may_call(function)) {
    activity().answer = values_.tensors().answer(function, arguments, count);
    if (!activity().answer && values_.tensors().has_default_device() && !put_default_device(function)) return false;
    return absorb_all(arguments, count, function) && allow_made_result(Entry::tensor);
  }
  if (values_.tensors().ends_graph(function)) return abandon(Break::stand_in, count > 0 ? arguments[0] : nullptr);
  if (watch_.autograd_functions.is_function_apply(function)) {
    // Its backward is Python code, which runs when autograd comes to it.
    if (values_.tensors().wants_history(arguments, count))
      return abandon(Break::autograd_function_with_gradients, self);
    return watch_.autograd_functions.apply_function(self);
  }
  if (name == "__new__" && self && PyType_Check(self) && count > 0) {
    auto* base = reinterpret_cast<PyTypeObject*>(self);
    auto* cls = PyType_Check(arguments[0]) ? reinterpret_cast<PyTypeObject*>(arguments[0]) : nullptr;
    const bool is_given = values_.source_of(arguments[0]) || values_.is_own_class(arguments[0]);
    const bool is_ordinary = cls && has_plain_new(base) && is_given && PyType_IsSubtype(cls, base) &&
                             (cls->tp_new != base->tp_new || count == 1) && !class_entry(arguments[0], "__del__");
    if (!is_ordinary) {
      run_.is_for_later |= is_code_of_enums(PyThreadState_Get()->cframe->current_frame);
      return abandon("__new__ of such a class", arguments[0]);
    }
    if (base == &PyTuple_Type && count > 1 && !watch_.containers.iterate(arguments[1])) return false;
    return allow_made_result();
  }
  if (self && PyType_Check(self) && is_exact_builtin(reinterpret_cast<PyTypeObject*>(self)) &&
      pure_class_methods().contains(name)) {
    run_.looks_lazily |= name == "from_iterable";
    return watch_.given.absorb_given(arguments, count) && allow_made_result(Entry::known) && looks();
  }
  if (name == "__subclasses__" && self && PyType_Check(self) && count == 0 &&
      is_method_of_type(builtin, "__subclasses__"))
    return watch_.classes.call_subclasses(self);
  if (is_check_of_type(builtin))
    return (count == 1 && values_.is_known(arguments[0]) && values_.is_known(self) &&
            watch_.classes.keep_class_of(arguments[0]))
               ? allow(Entry::known)
               : abandon("isinstance with an object of unknown origin", count ? arguments[0] : nullptr);
  const bool is_method = self && !PyModule_Check(self) && !PyType_Check(self);
  if (is_method) {
    // A method that existed before is bound to the same object on later calls, which never changes here.
    const bool is_older = PyFrozenSet_CheckExact(self) && values_.source_of(function) && !values_.is_known(self);
    if (is_older) values_.learn(self, values_.sources().object(self, "the set of a method"));
    const Ref text = Ref::steal(PyUnicode_FromString(builtin->m_ml->ml_name));
    return text && watch_.methods.call_method(text.get(), self, arguments, count);
  }
  if (!values_.is_known(function)) return abandon("a function of unknown origin", function);
  if (module == "builtins") {
    if (name == "isinstance" || name == "issubclass") {
      if (count != 2 || !values_.is_known(arguments[0]))
        return abandon("isinstance with an object of unknown origin", count ? arguments[0] : nullptr);
      if (!watch_.classes.keep_class_of(arguments[0]) || !watch_.classes.open_classes(arguments[1])) return false;
      if (name == "isinstance" && values_.tensors().is_of_legacy_type(arguments[0], arguments[1]))
        activity().answer = Py_True;
      return allow(Entry::known);
    }
    if ((name == "getattr" || name == "hasattr") && count >= 2 && PyUnicode_CheckExact(arguments[1])) {
      // A missing attribute is an answer here: where the lookup is an ordinary one, its guards say that it is
      // missing.
      return watch_.attributes.attribute(arguments[0], arguments[1]);
    }
    if (name == "setattr" && count == 3 && PyUnicode_CheckExact(arguments[1]))
      return watch_.attributes.store_attribute(arguments[0], arguments[1], arguments[2]);
    if (name == "delattr" && count == 2 && PyUnicode_CheckExact(arguments[1]))
      return watch_.attributes.delete_attribute(arguments[0], arguments[1]);
    if (name == "len" && count == 1 && !guards::is_scalar(arguments[0]) && values_.is_known(arguments[0]) &&
        watch_.classes.special_function(arguments[0], "__len__"))
      return allow(Entry::known);
    const bool has_builtin_length =
        name == "len" && count == 1 && values_.is_known(arguments[0]) &&
        (watch_.classes.acts_as_builtin(arguments[0], "__len__") || guards::is_deque(arguments[0]));
    if (has_builtin_length)
      return values_.open(arguments[0]) || abandon("a container that cannot be guarded", arguments[0]);
    if (name == "callable" && count == 1 && values_.is_known(arguments[0]))
      return watch_.classes.keep_special(arguments[0], {"__call__"});
    if ((name == "next" || (name == "iter" && count == 1)) && count >= 1 && values_.is_known(arguments[0]) &&
        !is_builtin_container(arguments[0])) {
      if (name == "iter")
        return watch_.iterators.is_older_iterator(arguments[0]) || watch_.containers.iterate(arguments[0]);
      return values_.is_made(arguments[0]) ? allow_made_result(Entry::known)
                                           : watch_.iterators.ask_next(arguments[0]);
    }
    if (name == "super") return allow_made_result();
    if (name == "id" && count == 1) return watch_.copies.address(arguments[0]);
    if (name == "vars" && count == 1 && values_.is_known(arguments[0])) {
      const Ref dict = Ref::steal(PyUnicode_InternFromString("__dict__"));
      return dict && watch_.attributes.attribute(arguments[0], dict.get());
    }
    if (name == "globals" && count == 0) {
      PyObject* globals = PyThreadState_Get()->cframe->current_frame->f_globals;
      values_.learn_as(globals, values_.sources().object(globals, "G"));
      return true;
    }
    if (count >= 1 && watch_.conversions.converts(name, arguments[0])) return true;
    if (abandoned()) return false;
    if (name == "hash" && count == 1 && !is_data(arguments[0])) return watch_.containers.hash_of(arguments[0]);
    const bool makes_text = name == "repr" || name == "ascii" || name == "format" || name == "hash";
    if (makes_text &&
        (all_data(arguments, count) || (count == 1 && watch_.conversions.is_plain_exception(arguments[0]))))
      return (PyExceptionInstance_Check(arguments[0]) || absorb_all(arguments, count, function)) &&
             allow(Entry::none);
    if (goes_through(name) && count == 1 && !storage_type(arguments[0]) && values_.is_known(arguments[0]) &&
        !values_.tensors().is_tensor(arguments[0]) && watch_.classes.special_function(arguments[0], "__iter__"))
      return allow_made_result(Entry::known) && looks();
    const bool calls = name == "iter" || name == "next";
    if (!calls && what_function_does(module, name) != Does::computes)
      return abandon("a builtin function that is not understood", function);
    return watch_.given.absorb_given(arguments, count, Given::items_given_to(name)) &&
           allow_made_result(Entry::tensor) && looks();
  }
  if (module == "sys" && name == "exc_info") return allow_made_result();
  if (module == "_warnings" && name == "warn") return abandon(Break::warns);
  if ((module == "posix" && name == "fspath") || (module == "sys" && name == "intern"))
    return all_data(arguments, count) || abandon("text is made of an object", function);
  if (module == "_weakref" && name == "proxy") return watch_.library.make_weak_reference(arguments, count);
  if (module == "_functools" && name == "reduce") return watch_.given.call_reduce(arguments, count);
  if (module == "_abc" && (name == "_abc_instancecheck" || name == "_abc_subclasscheck") && count == 2)
    return watch_.library.check_abstract(arguments[0], arguments[1], name == "_abc_instancecheck");
  if (module == "_operator") return watch_.operators.call_operator(name, arguments, count);
  PyObject* stand_in = run_.callee && *run_.callee == function ? values_.tensors().stand_in_for(function) : nullptr;
  if (module == "_collections" && name == "_count_elements" && count == 2) {
    if (values_.is_made(arguments[0]) && is_data(arguments[1])) return absorb_all(arguments + 1, 1, function);
    if (!stand_in) return abandon("what is counted is no data, or into what existed before", arguments[1]);
  }
  if (module == "math")
    return watch_.given.absorb_given(arguments, count) && allow_made_result(Entry::tensor) && looks();
  if (stand_in) return watch_.stand_ins.put_stand_in(function, stand_in) && call(stand_in, arguments, count);
  return abandon("a C function that is not understood", function);
}

}  // namespace braze::interpreter
