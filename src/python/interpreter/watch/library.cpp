// python/interpreter/watch/library.cpp
#include "python/interpreter/watch/library.h"

#include <algorithm>
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

template <typename Visit>
void for_each_referent(PyObject* object, Visit&& visit) {
  const visitproc call = [](PyObject* referent, void* visit) {
    (*static_cast<std::remove_reference_t<Visit>*>(visit))(referent);
    return 0;
  };
  Py_TYPE(object)->tp_traverse(object, call, &visit);
}

/// The function of that name in a module that is loaded.
bool is_function_of(PyObject* function, const char* module, const char* name) {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  if (PyUnicode_CompareWithASCIIString(object->func_qualname, name) != 0) return false;
  PyObject* loaded = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return loaded && PyModule_Check(loaded) && PyModule_GetDict(loaded) == object->func_globals;
}

}  // namespace

bool Library::calls_signature(PyObject* function, Py_ssize_t count) const {
  return count == 1 && is_function_of(function, "inspect", "signature");
}

/// What signature() goes through: what functions of functools.wraps() stand around. Null: abandoned.
PyObject* Library::unwrap(PyObject* function) {
  constexpr int most = 100;  // More are a circle, at which it raises.
  for (int depth = 0; depth < most; ++depth) {
    PyObject* own = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    const auto entry = [&](const char* name) { return own ? PyDict_GetItemString(own, name) : nullptr; };
    const bool is_plain = !entry("__signature__") && !entry("_partialmethod") && !entry("__text_signature__");
    PyObject* wrapped = entry("__wrapped__");
    const guards::Source* source = values_.source_of(function);
    if (!is_plain || (source && own && values_.effects().changed(own))) break;
    guards::SourceTable& sources = values_.sources();
    if (source)
      for (const char* name : {"__signature__", "_partialmethod", "__text_signature__"})
        values_.guards().absent(sources.attribute(source, name));
    if (source && !wrapped) values_.guards().absent(sources.attribute(source, "__wrapped__"));
    if (!wrapped) return function;
    if (source && !values_.learn(wrapped, sources.attribute(source, "__wrapped__"))) break;
    if (!PyFunction_Check(wrapped) || !values_.is_known(wrapped)) break;
    function = wrapped;
  }
  abandon("the signature of a function with attributes", function);
  return nullptr;
}

bool Library::call_signature(PyObject* function) {
  if (Py_IS_TYPE(function, &PyMethod_Type)) {
    if (!watch_.calls.learn_method(function)) return false;
    function = PyMethod_GET_FUNCTION(function);
  }
  if (!PyFunction_Check(function) && run_.callee && PyFunction_Check(*run_.callee) && values_.is_known(function))
    if (PyObject* form = values_.tensors().stand_in_for(*run_.callee))
      return watch_.stand_ins.call_stand_in(*run_.callee, form);
  if (!PyFunction_Check(function) || !values_.is_known(function))
    return abandon("the signature of an object of this kind", function);
  function = unwrap(function);
  if (!function) return false;
  const guards::Source* source = values_.source_of(function);
  activity().entry = Entry::trusted;
  activity().makes_result = true;
  activity().makes_signature = true;
  activity().is_quiet = true;
  if (!source) return true;
  guards::SourceTable& sources = values_.sources();
  // signature() asks for them, and a function without annotations is given an empty dict then.
  const Ref annotations = Ref::steal(PyObject_GetAttrString(function, "__annotations__"));
  const auto keep = [&](PyObject* dict, guards::Member member) {
    return dict && PyDict_CheckExact(dict) && values_.learn(dict, sources.member(source, member)) &&
           values_.open(dict);
  };
  PyObject* defaults = reinterpret_cast<PyFunctionObject*>(function)->func_kwdefaults;
  if (defaults && !keep(defaults, guards::Member::function_kwdefaults))
    return abandon("a default that cannot be guarded", function);
  return keep(annotations.get(), guards::Member::function_annotations) ||
         abandon("annotations that cannot be guarded", function);
}

void Library::make_signature(PyObject* signature) {
  const Ref parameters = Ref::steal(PyObject_GetAttrString(signature, "_parameters"));
  if (!parameters) return PyErr_Clear();
  values_.make(parameters.get());
  for_each_referent(parameters.get(), [&](PyObject* mapping) {
    if (!PyDict_Check(mapping)) return;
    values_.make(mapping);
    Py_ssize_t at = 0;
    PyObject *name, *parameter;
    while (PyDict_Next(mapping, &at, &name, &parameter)) {
      values_.make(parameter);
      // A member of an enum, which is the same in every run.
      const Ref kind = Ref::steal(PyObject_GetAttrString(parameter, "_kind"));
      if (kind) values_.learn(kind.get(), values_.sources().object(kind.get(), "the kind of a parameter"));
    }
  });
}

bool Library::makes_named_tuple(PyObject* function) {
  return is_function_of(function, "collections", "namedtuple") || is_function_of(function, "typing", "NamedTuple");
}

bool Library::call_named_tuple(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!watch_.generic_types.is_part_of_type(arguments[i]))
      return abandon("a class of named tuples is made of an object", arguments[i]);
  guards::SourceTable& sources = values_.sources();
  PyObject* globals = PyThreadState_Get()->cframe->current_frame->f_globals;
  const Ref key = Ref::steal(PyUnicode_InternFromString("__name__"));
  PyObject* module = key && PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, key.get()) : nullptr;
  const bool is_named = module && PyUnicode_CheckExact(module) && !values_.effects().wrote(globals, key.get()) &&
                        values_.learn(module, sources.dict_item(sources.object(globals, "G"), key.get()));
  if (!is_named || !values_.pin(function)) return abandon("a class of named tuples in a module without a name");
  activity().makes_class = true;
  activity().is_quiet = true;
  return allow(Entry::trusted);
}

bool Library::is_dispatch(PyObject* function) {
  return is_function_of(function, "functools", "singledispatch.<locals>.dispatch");
}

bool Library::call_dispatch(PyObject* function, PyObject* type) {
  const guards::Source* source = values_.source_of(function);
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  const Ref names = Ref::steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))));
  PyObject* registry = nullptr;
  uint32_t place = 0;
  for (Py_ssize_t i = 0; closure && names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (text_of(PyTuple_GET_ITEM(names.get(), i)) != "registry") continue;
    registry = PyCell_GET(PyTuple_GET_ITEM(closure, i));
    place = static_cast<uint32_t>(i);
  }
  if (!source || !registry || !PyDict_CheckExact(registry) || !PyType_Check(type) || !values_.is_known(type) ||
      values_.is_own_class(type) || values_.effects().changed(registry))
    return abandon("a function of singledispatch that is not understood", type);
  if (!values_.learn(registry, values_.sources().closure_variable(source, place, "registry")) ||
      !values_.open(registry) || !values_.pin(type))
    return abandon("a function of singledispatch that is not understood", type);
  watch_.classes.keep_bases(type);
  values_.guards().abc_registrations();
  activity().is_quiet = true;
  return allow(Entry::trusted);
}

bool Library::check_abstract(PyObject* type, PyObject* subject, bool is_instance) {
  values_.guards().abc_registrations();
  if (!values_.is_known(type) || !values_.is_known(subject))
    return abandon("isinstance with an object of unknown origin", subject);
  PyObject* own = class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__class__");
  if (is_instance && class_entry(reinterpret_cast<PyObject*>(Py_TYPE(subject)), "__class__") != own)
    return abandon("isinstance with an object that says its class itself", subject);
  if (!watch_.classes.keep_class_of(subject)) return false;
  activity().is_quiet = true;
  return watch_.classes.keep_in_class(type, watch_.classes.class_source(type), {"__subclasshook__"}) &&
         allow(Entry::trusted);
}

bool Library::call_pattern(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!guards::is_scalar(arguments[i]) && !absorb_content(values_, arguments[i]) &&
        !(PyFunction_Check(arguments[i]) && values_.is_known(arguments[i])))
      return abandon("a pattern is given an object", arguments[i]);
  // Such a function is given a new match.
  PyObject* re = PyDict_GetItemString(PyImport_GetModuleDict(), "re");
  PyObject* match = re && PyModule_Check(re) ? PyDict_GetItemString(PyModule_GetDict(re), "Match") : nullptr;
  if (match && PyType_Check(match)) activity().constructs = reinterpret_cast<PyTypeObject*>(match);
  return (values_.pin(self) && allow_made_result(Entry::known)) || abandon("a pattern is given an object", self);
}

bool Library::call_context_variable(std::string_view name, PyObject* self, PyObject* const* arguments,
                                    Py_ssize_t count) {
  guards::SourceTable& sources = values_.sources();
  Effects& effects = values_.effects();
  const guards::Source* source = values_.source_of(self);
  if (!source) return abandon("a context variable that cannot be guarded", self);
  if (name == "get" && effects.is_set(self)) return true;
  if (name == "get") {
    PyObject* value = nullptr;
    if (PyContextVar_Get(self, nullptr, &value) < 0) PyErr_Clear();
    const Ref owned = Ref::steal(value);
    const guards::Source* contents = sources.context_value(source);
    if (!value) values_.guards().absent(contents);
    return !value || values_.learn(value, contents) || abandon("a context variable that cannot be guarded", value);
  }
  if (name == "set" && count == 1) {
    PyObject* before = nullptr;
    if (PyContextVar_Get(self, nullptr, &before) < 0) PyErr_Clear();
    const Ref held = Ref::steal(before);
    if (!effects.is_set(self) && !lets_go(before, sources.context_value(source))) return false;
    activity().sets_variable = self;
    return allow_made_result();
  }
  if (name == "reset" && count == 1)
    return effects.reset_variable(self, arguments[0]) || abandon("a token that is not of the latest set()", self);
  return abandon("a method of a context variable", self);
}

bool Library::make_weak_reference(PyObject* const* arguments, Py_ssize_t count) {
  PyObject* referent = count > 0 ? arguments[0] : Py_None;
  // What existed before outlives the reference: the run drops nothing whose end a callback would tell.
  const bool calls_back = count == 2 && arguments[1] != Py_None;
  if (count < 1 || count > 2 || run_.keyword_names || (calls_back && !values_.source_of(referent)))
    return abandon("a weak reference with a callback");
  const bool stays =
      values_.is_known(referent) && !values_.tensors().is_tensor(referent) && !PyType_Check(referent);
  if (!stays) return abandon("a weak reference to a tensor, a class or an object of unknown origin", referent);
  return allow_made_result();
}

bool Library::call_weak_reference(PyObject* reference) {
  const guards::Source* source = values_.source_of(reference);
  if (!source) return values_.is_made(reference) || abandon("a weak reference of unknown origin", reference);
  if (values_.drops().any()) return abandon("a weak reference to what the function may have dropped", reference);
  const guards::Source* referent = values_.sources().member(source, guards::Member::weakref_referent);
  PyObject* object = PyWeakref_GET_OBJECT(reference);
  if (object == Py_None) {
    values_.guards().absent(referent);
    return true;
  }
  return values_.learn(object, referent) || abandon("an object that cannot be guarded", object);
}

}  // namespace braze::interpreter
