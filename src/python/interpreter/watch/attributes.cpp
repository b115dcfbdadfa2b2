// python/interpreter/watch/attributes.cpp
#include "python/interpreter/watch/attributes.h"

#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/guards/thread_locals.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// object's own lookup. That of modules differs only in what it does when it finds nothing.
bool is_plain_lookup(void* slot) {
  return slot == reinterpret_cast<void*>(PyObject_GenericGetAttr) ||
         slot == reinterpret_cast<void*>(PyModule_Type.tp_getattro);
}

/// A method that a builtin class has under this name: `__getattr__ = dict.__getitem__`.
bool is_builtin_method(PyObject* found) {
  return found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type));
}

/// The plain lookup, alone or with a __getattr__ behind it. Builtin classes (dict, list, tuple) have it under a
/// name of their own.
bool has_plain_lookup(PyTypeObject* type) {
  if (is_plain_lookup(reinterpret_cast<void*>(type->tp_getattro))) return true;
  if (type->tp_name == std::string_view("types.UnionType") && is_exact_builtin(type)) return true;
  PyObject* own = find_in_type(type, "__getattribute__");
  if (!own || !Py_IS_TYPE(own, &PyWrapperDescr_Type) ||
      !is_plain_lookup(reinterpret_cast<PyWrapperDescrObject*>(own)->d_wrapped))
    return false;
  PyObject* fallback = find_in_type(type, "__getattr__");
  return fallback && (PyFunction_Check(fallback) || is_builtin_method(fallback));
}

/// The `__getattribute__` that a class has in Python; null if it has none.
PyObject* lookup_in_python(PyTypeObject* type) {
  PyObject* own = find_in_type(type, "__getattribute__");
  return own && PyFunction_Check(own) ? own : nullptr;
}

/// Builtin classes all of whose attributes are computed from what an instance was made of.
bool is_immutable_record(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  const bool is_record = name == "torch.finfo" || name == "torch.iinfo" || name == "re.Pattern" ||
                         name == "re.Match" || name == "collections.deque";  // Its limit.
  return is_record && is_exact_builtin(type);
}

/// The tuple and the dict that a partial of this run keeps its arguments in are its own.
void make_parts_of_partial(Values& values, PyObject* partial) {
  for (const char* name : {"args", "keywords"}) {
    const Ref part = Ref::steal(PyObject_GetAttrString(partial, name));
    if (!part)
      PyErr_Clear();
    else if (PyTuple_CheckExact(part.get()) || PyDict_CheckExact(part.get()))
      values.make(part.get());
  }
}

/// What `__dict__` gives. Its entries are as they were before the call.
bool learns_dict(Values& values, PyObject* object) {
  PyObject* dict = guards::instance_dict(object);
  if (!dict || !PyDict_CheckExact(dict)) return false;
  if (const guards::Source* source = values.source_of(object))
    values.learn_as(dict, values.sources().dict_of(source));
  else
    values.make(dict);
  return true;
}

}  // namespace

bool Attributes::attribute(PyObject* object, PyObject* name) {
  if (text_of(name) == "__class__" && !PyType_Check(object) && values_.is_known(object) &&
      !lookup_in_python(Py_TYPE(object)))
    return class_of(object, name);
  if (values_.tensors().is_tensor(object)) return watch_.tensor_attributes.tensor_attribute(object, name);
  if (guards::is_scalar(object) || values_.tensors().is_plain(object)) return allow_made_result();
  if (!values_.is_known(object)) return abandon("an attribute of an object of unknown origin", object);
  if (PyModule_CheckExact(object)) return module_attribute(object, name);
  if (PyType_Check(object)) return class_attribute(object, name);
  if (Py_IS_TYPE(object, &PySuper_Type)) return super_attribute(object, name);
  if (Arrays::is_object(object)) return watch_.arrays.attribute(object, name);
  if (is_builtin_container(object)) return allow_made_result();  // Methods; what they read is for the call to say.
  if (PyWeakref_CheckProxy(object)) return attribute_behind_proxy(object, name);
  return instance_attribute(object, name);
}

/// weakref.proxy() hands on all but a few questions about itself to what it refers to.
bool Attributes::attribute_behind_proxy(PyObject* proxy, PyObject* name) {
  PyObject* referent = PyWeakref_GET_OBJECT(proxy);
  if (referent == Py_None) return abandon("an object with a lookup of its own", proxy);  // A ReferenceError.
  return watch_.library.call_weak_reference(proxy) && attribute(referent, name);
}

bool Attributes::module_attribute(PyObject* module, PyObject* name) {
  const guards::Source* source = values_.source_of(module);
  PyObject* dict = PyModule_GetDict(module);
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!source) return abandon("an attribute of an object of unknown origin", module);
  const bool is_slot = !value && text_of(name) == "__getattribute__" && PyModule_CheckExact(module);
  if (is_slot) return allow_made_result();  // Of the type of modules, bound.
  if (!value) return lacks_in_module(module, name);
  if (values_.effects().wrote(dict, name)) return true;
  // The dict of a module comes before all but data descriptors of its type, of which modules have none of interest.
  return values_.numbers().learn_read(value, values_.sources().attribute(source, name)) ||
         abandon("an attribute of a module that cannot be guarded", value);
}

/// An AttributeError, or the default of getattr(). A module may have a function that finds what it does not have.
bool Attributes::lacks_in_module(PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  const Ref finder = Ref::steal(PyUnicode_InternFromString("__getattr__"));
  PyObject* found = finder ? PyDict_GetItemWithError(dict, finder.get()) : nullptr;
  const bool is_understood = !found || (PyFunction_Check(found) && !values_.effects().wrote(dict, finder.get()));
  if (!finder || !is_understood || find_in_type(Py_TYPE(module), name) || values_.effects().changed(dict))
    return abandon("an attribute that a module does not have", name);
  const guards::Source* source = values_.source_of(module);
  const auto entry = [&](PyObject* key) { return values_.sources().attribute(source, key); };
  values_.guards().absent(entry(name));
  if (found) return values_.learn(found, entry(finder.get())) && allow(Entry::known);
  values_.guards().absent(entry(finder.get()));
  return true;
}

bool Attributes::class_attribute(PyObject* type, PyObject* name) {
  guards::SourceTable& sources = values_.sources();
  PyObject* meta = find_in_type(Py_TYPE(type), name);
  if (meta && Py_IS_TYPE(meta, &PyProperty_Type))
    return watch_.classes.keep_special(type, {"__getattribute__"}) &&
           property_getter(meta, sources.type_attribute(type_source(values_, type), name), name);
  if (meta && is_data_descriptor(meta)) return class_field(type, meta, name);
  // A metaclass may have a __getattr__, for what is not found.
  PyObject* found = find_in_type(as_type(type), name);
  // That of pybind11 gives its own methods unbound, and all else as `type` does.
  const bool is_of_pybind =
      std::string_view(Py_TYPE(type)->tp_name) == "pybind11_type" && found && !PyInstanceMethod_Check(found);
  if (!is_of_pybind &&
      find_in_type(Py_TYPE(type), "__getattribute__") != find_in_type(&PyType_Type, "__getattribute__"))
    return abandon("a metaclass with its own lookup", type);
  if (PyUnicode_Check(name)) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text || !watch_.classes.keep_special(type, {"__getattribute__", text})) return false;
  }
  const guards::Source* source = watch_.classes.class_source(type);
  if (find_written(type, name)) return true;
  if (!found) {
    if (is_changeable(as_type(type))) values_.guards().absent(sources.type_attribute(source, name));
    if (meta) return bind_in_metaclass(type, meta, name);
    if (watch_.classes.special_function(type, "__getattr__")) return allow(Entry::known);
    return watch_.classes.keep_special(type, {"__getattr__"});  // An AttributeError, or the default of getattr().
  }
  const bool is_plain = !Py_TYPE(found)->tp_descr_get;
  const bool is_method = PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type) ||
                         Py_IS_TYPE(found, &PyClassMethod_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                         Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyCFunction_Type) ||
                         Py_IS_TYPE(found, &PyClassMethodDescr_Type) || acts_as_property(found);
  const guards::Source* entry = sources.type_attribute(source, name);
  if (!is_plain && !is_method) {
    if (watch_.classes.learn_class_entry(found, entry) && watch_.classes.special_function(found, "__get__"))
      return allow(Entry::known);
    return abandon("a descriptor that is not understood", found);
  }
  if (is_named_tuple_field(found)) return values_.learn(found, entry) || abandon("a field of a named tuple", found);
  return reads_class_entry(found, entry) && allow_made_result();
}

/// What lies in a class becomes the result: a number may be another one at each call.
bool Attributes::reads_class_entry(PyObject* found, const guards::Source* entry) {
  if (!PyLong_CheckExact(found) && !PyFloat_CheckExact(found))
    return watch_.classes.learn_class_entry(found, entry);
  return values_.numbers().learn_read(found, entry) ||
         abandon("an attribute of a class that cannot be guarded", found);
}

/// What a metaclass has and the class does not: methods are bound to the class.
bool Attributes::bind_in_metaclass(PyObject* type, PyObject* found, PyObject* name) {
  const guards::Source* entry = values_.sources().type_attribute(type_source(values_, type), name);
  const bool is_bound = PyFunction_Check(found) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                        Py_IS_TYPE(found, &PyWrapperDescr_Type) || !Py_TYPE(found)->tp_descr_get;
  if (!is_bound) return abandon("an attribute of a metaclass", name);
  return watch_.classes.learn_class_entry(found, entry) && allow_made_result();
}

bool Attributes::super_attribute(PyObject* object, PyObject* name) {
  const Ref self_class = Ref::steal(PyObject_GetAttrString(object, "__self_class__"));
  const Ref this_class = Ref::steal(PyObject_GetAttrString(object, "__thisclass__"));
  if (!self_class || !this_class || !PyType_Check(self_class.get())) return abandon("an unbound super object");
  return super_lookup(this_class.get(), self_class.get(), name);
}

bool Attributes::super_lookup(PyObject* this_class, PyObject* self_class, PyObject* name) {
  PyObject* mro = as_type(self_class)->tp_mro;
  guards::SourceTable& sources = values_.sources();
  const guards::Source* type = sources.object(self_class, as_type(self_class)->tp_name);
  values_.guards().identity(sources.member(type, guards::Member::type_mro), mro);
  bool behind = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(mro, i);
    if (!behind) {
      behind = base == this_class;
      continue;
    }
    const guards::Source* entry =
        sources.dict_item(sources.dict_of(sources.object(base, as_type(base)->tp_name)), name);
    PyObject* found = PyDict_GetItemWithError(guards::class_dict(as_type(base)), name);
    if (values_.effects().wrote(base, name)) return abandon("an attribute of a class that was changed", name);
    if (!found) {
      values_.guards().absent(entry);
      continue;
    }
    if (acts_as_property(found)) return property_getter(found, entry, name);
    if (is_data_descriptor(found)) return abandon("a descriptor found through super()", name);
    if (!values_.learn(self_class, type)) return abandon("a class that cannot be guarded", self_class);
    return watch_.classes.learn_class_entry(found, entry) && allow_made_result();
  }
  // An AttributeError, or the default of getattr().
  return !find_in_type(&PySuper_Type, name) || abandon("an attribute of super() itself", name);
}

bool Attributes::instance_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyFunction_Check(object) || PyCFunction_Check(object) || PyMethod_Check(object))
    return function_attribute(object, name);
  if (PyCode_Check(object)) return allow_made_result();  // Immutable.
  if (!watch_.classes.keep_special(object, {"__getattribute__"})) return false;
  if (!text_of(name).starts_with("__")) values_.tensors().make_attribute(object, name);
  if (has_plain_lookup(type) || guards::is_thread_local(object)) return plain_attribute(object, name);
  if (lookup_in_python(type)) return allow(Entry::known);
  return abandon("an object with a lookup of its own", object);
}

bool Attributes::property_getter(PyObject* property, const guards::Source* source, PyObject* name) {
  PyObject* descriptor = member_descriptor(&PyProperty_Type, "fget");
  const Ref getter = Ref::steal(PyObject_GetAttrString(property, "fget"));
  if (!getter || !PyFunction_Check(getter.get())) return abandon("a property that is not written in Python", name);
  return (values_.learn(property, source) && watch_.classes.keep_special(property, {"__get__"}) &&
          values_.learn(getter.get(), values_.sources().slot(source, descriptor)) && allow(Entry::known)) ||
         abandon("a property that cannot be guarded", name);
}

/// The descriptor of a field of a named tuple, on an instance: the item.
bool Attributes::named_tuple_field(PyObject* object, PyObject* field, const guards::Source* source) {
  return (PyTuple_Check(object) && values_.learn(field, source) && values_.open(object)) ||
         abandon("a field of a named tuple", object);
}

/// Methods that are bound to the class are given it, and so is the `__get__` of a descriptor.
bool Attributes::learn_class_of(PyObject* object) {
  return values_.learn(reinterpret_cast<PyObject*>(Py_TYPE(object)), type_source(values_, object)) ||
         abandon("a class that cannot be guarded", object);
}

bool Attributes::plain_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(object);  // Null: made here.
  const guards::Source* in_type = sources.type_attribute(type_source(values_, object), name);
  PyObject* found = find_in_type(type, name);
  const bool is_written = find_written(reinterpret_cast<PyObject*>(type), name);
  if (is_written && Py_TYPE(found)->tp_descr_get && !PyFunction_Check(found))
    return abandon("an attribute of a class that was changed", name);
  if (is_written) {
    // What the run put there needs no guard.
  } else if (!found) {
    values_.guards().absent(in_type);
  } else if (is_data_descriptor(found)) {
    if (acts_as_property(found)) return property_getter(found, in_type, name);
    if (is_named_tuple_field(found)) return named_tuple_field(object, found, in_type);
    if (found == find_in_type(&PyBaseObject_Type, "__class__")) return class_of(object, name);
    if (text_of(name) == "__dict__" && learns_dict(values_, object)) return true;
    if (guards::is_object_member(found)) {
      if (!source && is_a(object, "functools.partial")) make_parts_of_partial(values_, object);
      if (!source || values_.effects().wrote(object, found)) return true;
      const guards::Source* slot = sources.slot(source, found);
      const Ref value = Ref::borrow(guards::load(*slot, object, {}));
      if (!value && find_in_type(type, "__getattr__")) return abandon("a slot that is empty", name);
      if (!values_.learn(found, in_type)) return abandon("a slot that cannot be guarded", name);
      if (value)
        return values_.numbers().learn_read(value.get(), slot) || abandon("a slot that cannot be guarded", name);
      values_.guards().absent(slot);  // An AttributeError, or the default of getattr().
      return watch_.classes.keep_special(object, {"__getattr__"});
    }
    if (text_of(name) == "__dict__") return abandon("an object without a dict", object);
    const bool is_field = Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type);
    if (is_field && is_immutable_record(type)) return values_.pin(object) && allow_made_result();
    if (watch_.autograd_functions.is_needs_input_grad(object, found)) return allow_made_result();
    if (Py_IS_TYPE(found, &PyGetSetDescr_Type) && PyExceptionInstance_Check(object) && !source) {
      // The exceptions that led to it are known, or of unknown origin; the rest is its own.
      const std::string_view text = text_of(name);
      return text == "__cause__" || text == "__context__" || allow_made_result();
    }
    // A data descriptor written in Python, such as the flags of torch.backends.
    if (watch_.classes.learn_class_entry(found, in_type) && watch_.classes.special_function(found, "__get__"))
      return learn_class_of(object) && allow(Entry::known);
    return abandon("a descriptor that is not understood", found);
  }
  PyObject* dict = guards::instance_dict(object);
  if (guards::is_thread_local(object)) {
    if (!dict) return abandon("an object without a dict", object);
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0)
      return learns_dict(values_, object) || abandon("an object without a dict", object);
  }
  const bool is_own = !source || (dict && values_.effects().wrote(dict, name));
  if (PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr) {
    if (found && !is_written && !watch_.classes.learn_class_entry(found, in_type)) return false;
    return is_own || values_.numbers().learn_read(value, sources.attribute(source, name)) ||
           abandon("an attribute that cannot be guarded", value);
  }
  if (!is_own && dict) values_.guards().absent(sources.attribute(source, name));
  if (found) {
    const bool is_method = PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type) ||
                           Py_IS_TYPE(found, &PyClassMethod_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                           Py_IS_TYPE(found, &PyWrapperDescr_Type) || values_.tensors().compiled_from(found) ||
                           is_a(found, "functools._lru_cache_wrapper");
    if (is_written) return !is_method || allow_made_result();
    if (Py_TYPE(found)->tp_descr_get && !is_method) {
      if (watch_.classes.learn_class_entry(found, in_type) && watch_.classes.special_function(found, "__get__"))
        return learn_class_of(object) && allow(Entry::known);
      return abandon("a descriptor that is not understood", found);
    }
    if (Py_IS_TYPE(found, &PyClassMethod_Type) && !learn_class_of(object)) return false;
    return reads_class_entry(found, in_type) && allow_made_result();
  }
  if (PyModule_Check(object)) {
    const Ref fallback = Ref::steal(PyUnicode_InternFromString("__getattr__"));
    PyObject* own = fallback && dict ? PyDict_GetItemWithError(dict, fallback.get()) : nullptr;
    if (!fallback || !source || !dict || (own && (is_own || !PyFunction_Check(own))))
      return abandon("a module with a __getattr__", object);
    if (own) return values_.learn(own, sources.attribute(source, fallback.get())) && allow(Entry::known);
    values_.guards().absent(sources.attribute(source, fallback.get()));
  }
  if (watch_.classes.special_function(object, "__getattr__")) return allow(Entry::known);
  if (PyObject* fallback = find_in_type(type, "__getattr__"); is_builtin_method(fallback))
    return watch_.classes.keep_special(object, {"__getattr__"}) &&
           watch_.methods.call_descriptor(fallback, object, &name, 1);
  return watch_.classes.keep_special(object,
                                     {"__getattr__"});  // Nothing: an AttributeError, or the default of getattr().
}

}  // namespace braze::interpreter
