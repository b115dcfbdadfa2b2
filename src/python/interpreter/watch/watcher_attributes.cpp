// python/interpreter/watch/watcher_attributes.cpp: what reading an attribute reads.
//
// Plan of a lookup on an ordinary object, as object.__getattribute__ does it:
//   1. find the name along the type's MRO; a guard says what is there, or that nothing is
//   2. a property: its getter is Python code that is watched in turn
//   3. the instance's dict; a guard says what is there, or that nothing is
//   4. what 1. found: a function becomes a bound method, other values are themselves
//   5. a __getattr__ written in Python, watched in turn (torch.nn.Module finds parameters so)
#include <Python.h>
#include <structmember.h>

#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

PyTypeObject* as_type(PyObject* object) {
  return reinterpret_cast<PyTypeObject*>(object);
}

PyObject* find_in_type(PyTypeObject* type, PyObject* name) {
  return _PyType_Lookup(type, name);
}

PyObject* find_in_type(PyTypeObject* type, const char* name) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return key ? _PyType_Lookup(type, key.get()) : nullptr;
}

/// object's own lookup, alone or with a __getattr__ written in Python behind it. That of modules differs only in
/// what it does when it finds nothing.
bool has_plain_lookup(PyTypeObject* type) {
  if (type->tp_getattro == PyObject_GenericGetAttr || type->tp_getattro == PyModule_Type.tp_getattro) return true;
  PyObject* own = find_in_type(type, "__getattribute__");
  if (own != find_in_type(&PyBaseObject_Type, "__getattribute__") &&
      own != find_in_type(&PyModule_Type, "__getattribute__"))
    return false;
  PyObject* fallback = find_in_type(type, "__getattr__");
  return fallback && PyFunction_Check(fallback);
}

PyObject* member_descriptor(PyTypeObject* type, const char* name) {
  return PyDict_GetItemString(guards::class_dict(type), name);
}

/// Builtin classes all of whose attributes are computed from what an instance was made of.
bool is_immutable_record(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  const bool is_record = name == "torch.finfo" || name == "torch.iinfo" || name == "re.Pattern" ||
                         name == "re.Match" || name == "collections.deque";  // Its limit.
  return is_record && is_exact_builtin(type);
}

bool is_named_tuple_field(PyObject* found) {
  return std::string_view(Py_TYPE(found)->tp_name) == "_collections._tuplegetter";
}

bool is_data_descriptor(PyObject* found) {
  return Py_TYPE(found)->tp_descr_set != nullptr;
}

}  // namespace

/// Where a class comes from; itself if no path is known.
const guards::Source* Watcher::class_source(PyObject* type) {
  const guards::Source* source = values_.source_of(type);
  return source ? source : values_.sources().object(type, as_type(type)->tp_name);
}

bool Watcher::special_function(PyObject* object, const char* name) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* found = key ? find_in_type(Py_TYPE(object), key.get()) : nullptr;
  if (!found || !PyFunction_Check(found)) return false;
  return values_.learn(found, values_.sources().type_attribute(type_source(object), key.get()));
}

bool Watcher::keep_in_class(PyObject* type, const guards::Source* source,
                            std::initializer_list<const char*> names) {
  if (!(as_type(type)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;  // Builtin classes cannot be changed.
  for (const char* name : names) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    if (!key) return abandon("no memory");
    const guards::Source* entry = values_.sources().type_attribute(source, key.get());
    PyObject* found = find_in_type(as_type(type), key.get());
    if (!found)
      values_.guards().absent(entry);
    else if (!values_.learn(found, entry))
      return abandon("a special method that cannot be guarded", found);
  }
  return true;
}

bool Watcher::keep_special(PyObject* object, std::initializer_list<const char*> names) {
  return keep_in_class(reinterpret_cast<PyObject*>(Py_TYPE(object)), type_source(object), names);
}

bool Watcher::acts_as_builtin(PyObject* object, const char* slot) {
  PyTypeObject* storage = storage_type(object);
  if (!storage) return false;
  if (storage == Py_TYPE(object)) return true;
  PyObject* own = find_in_type(Py_TYPE(object), slot);
  return own && own == find_in_type(storage, slot) && keep_special(object, {slot});
}

/// `__name__` or `__qualname__` of a class.
bool Watcher::class_name(PyObject* type, PyObject* name) {
  if (!(as_type(type)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return allow_made_result();
  const bool is_short = PyUnicode_CompareWithASCIIString(name, "__name__") == 0;
  const guards::Source* source = class_source(type);
  auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  const guards::Member member = is_short ? guards::Member::type_name : guards::Member::type_qualname;
  return values_.learn(is_short ? heap->ht_name : heap->ht_qualname, values_.sources().member(source, member));
}

/// Classes of isinstance() or `except`: one, or tuples of them.
bool Watcher::open_classes(PyObject* classes) {
  if (!values_.is_known(classes)) return abandon("a class of unknown origin", classes);
  // A class whose metaclass answers in Python: what it runs is watched.
  if (PyType_Check(classes)) return keep_special(classes, {"__instancecheck__", "__subclasscheck__"});
  if (is_a(classes, "types.UnionType")) {
    if (values_.source_of(classes) && !values_.pin(classes))
      return abandon("classes that cannot be guarded", classes);
    const Ref parts = Ref::steal(PyObject_GetAttrString(classes, "__args__"));
    if (!parts || !PyTuple_CheckExact(parts.get())) return abandon("classes that cannot be guarded", classes);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
      PyObject* part = PyTuple_GET_ITEM(parts.get(), i);  // The same ones for as long as the union lives.
      if (!PyType_Check(part)) return abandon("classes that cannot be guarded", part);
      if (!values_.is_known(part)) values_.learn(part, values_.sources().object(part, "a part of a union"));
      if (!open_classes(part)) return false;
    }
    return true;
  }
  if (!PyTuple_Check(classes)) {
    special_function(classes, "__instancecheck__");
    return !abandoned_;
  }
  if (!values_.open(classes)) return abandon("classes that cannot be guarded", classes);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
    if (!open_classes(PyTuple_GET_ITEM(classes, i))) return false;
  return true;
}

/// Something found in a class: functions and plain values as they are, the function of static and class methods.
bool Watcher::learn_class_entry(PyObject* found, const guards::Source* source) {
  const bool wraps = Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type);
  if (!values_.learn(found, source)) return abandon("an attribute of a class that cannot be guarded", found);
  if (!wraps) return guards::is_scalar(found) || keep_special(found, {"__get__", "__set__", "__delete__"});
  PyObject* descriptor = member_descriptor(Py_TYPE(found), "__func__");
  const Ref function = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!descriptor || !function) return abandon("a method that cannot be guarded", found);
  return values_.learn(function.get(), values_.sources().slot(source, descriptor)) ||
         abandon("a method that cannot be guarded", found);
}

bool Watcher::attribute(PyObject* object, PyObject* name) {
  if (text_of(name) == "__class__" && !PyType_Check(object) && values_.is_known(object))
    return class_of(object, name);
  if (values_.tensors().is_tensor(object)) return tensor_attribute(object, name);
  if (guards::is_scalar(object) || values_.tensors().is_plain(object)) return allow_made_result();
  if (!values_.is_known(object)) return abandon("an attribute of an object of unknown origin", object);
  if (PyModule_CheckExact(object)) return module_attribute(object, name);
  if (PyType_Check(object)) return class_attribute(object, name);
  if (Py_IS_TYPE(object, &PySuper_Type)) return super_attribute(object, name);
  if (is_builtin_container(object)) return allow_made_result();  // Methods; what they read is for the call to say.
  return instance_attribute(object, name);
}

bool Watcher::module_attribute(PyObject* module, PyObject* name) {
  const guards::Source* source = values_.source_of(module);
  PyObject* dict = PyModule_GetDict(module);
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!source) return abandon("an attribute of an object of unknown origin", module);
  if (!value) return lacks_in_module(module, name);
  if (values_.effects().wrote(dict, name)) return true;
  // The dict of a module comes before all but data descriptors of its type, of which modules have none of interest.
  return values_.learn(value, values_.sources().attribute(source, name)) ||
         abandon("an attribute of a module that cannot be guarded", value);
}

/// An AttributeError, or the default of getattr(). A module may have a function that finds what it does not have.
bool Watcher::lacks_in_module(PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  const Ref finder = Ref::steal(PyUnicode_InternFromString("__getattr__"));
  const bool is_found = find_in_type(Py_TYPE(module), name) || (finder && PyDict_Contains(dict, finder.get()) != 0);
  if (!finder || is_found || values_.effects().changed(dict))
    return abandon("an attribute that a module does not have", name);
  const guards::Source* source = values_.source_of(module);
  for (PyObject* missing : {name, finder.get()})
    values_.guards().absent(values_.sources().attribute(source, missing));
  return true;
}

bool Watcher::class_attribute(PyObject* type, PyObject* name) {
  guards::SourceTable& sources = values_.sources();
  PyObject* meta = find_in_type(Py_TYPE(type), name);
  if (meta && Py_IS_TYPE(meta, &PyProperty_Type))
    return property_getter(meta, sources.type_attribute(type_source(type), name), name);
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
    if (!text || !keep_special(type, {"__getattribute__", text})) return false;
  }
  const guards::Source* source = class_source(type);
  if (find_written(type, name)) return true;
  if (!found) {
    if (as_type(type)->tp_flags & Py_TPFLAGS_HEAPTYPE)
      values_.guards().absent(sources.type_attribute(source, name));
    if (meta) return bind_in_metaclass(type, meta, name);
    if (special_function(type, "__getattr__")) return allow(Entry::known);
    return keep_special(type, {"__getattr__"});  // An AttributeError, or the default of getattr().
  }
  const bool is_plain = !Py_TYPE(found)->tp_descr_get;
  const bool is_method = PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type) ||
                         Py_IS_TYPE(found, &PyClassMethod_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                         Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyCFunction_Type) ||
                         Py_IS_TYPE(found, &PyClassMethodDescr_Type) || Py_IS_TYPE(found, &PyProperty_Type);
  const guards::Source* entry = sources.type_attribute(source, name);
  if (!is_plain && !is_method) {
    if (learn_class_entry(found, entry) && special_function(found, "__get__")) return allow(Entry::known);
    return abandon("a descriptor that is not understood", found);
  }
  if (is_named_tuple_field(found)) return values_.learn(found, entry) || abandon("a field of a named tuple", found);
  return learn_class_entry(found, entry) && allow_made_result();
}

/// What a metaclass has and the class does not: methods are bound to the class.
bool Watcher::bind_in_metaclass(PyObject* type, PyObject* found, PyObject* name) {
  const guards::Source* entry = values_.sources().type_attribute(type_source(type), name);
  const bool is_bound = PyFunction_Check(found) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                        Py_IS_TYPE(found, &PyWrapperDescr_Type) || !Py_TYPE(found)->tp_descr_get;
  if (!is_bound) return abandon("an attribute of a metaclass", name);
  return learn_class_entry(found, entry) && allow_made_result();
}

bool Watcher::super_attribute(PyObject* object, PyObject* name) {
  const Ref self_class = Ref::steal(PyObject_GetAttrString(object, "__self_class__"));
  const Ref this_class = Ref::steal(PyObject_GetAttrString(object, "__thisclass__"));
  if (!self_class || !this_class || !PyType_Check(self_class.get())) return abandon("an unbound super object");
  return super_lookup(this_class.get(), self_class.get(), name);
}

bool Watcher::super_lookup(PyObject* this_class, PyObject* self_class, PyObject* name) {
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
    if (Py_IS_TYPE(found, &PyProperty_Type) || is_data_descriptor(found))
      return abandon("a property found through super()", name);
    if (!values_.learn(self_class, type)) return abandon("a class that cannot be guarded", self_class);
    return learn_class_entry(found, entry) && allow_made_result();
  }
  return abandon("an attribute that super() does not find", name);
}

bool Watcher::instance_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyFunction_Check(object) || PyCFunction_Check(object) || PyMethod_Check(object))
    return function_attribute(object, name);
  if (PyCode_Check(object)) return allow_made_result();  // Immutable.
  if (!keep_special(object, {"__getattribute__"})) return false;
  if (!text_of(name).starts_with("__")) values_.tensors().make_attribute(object, name);
  if (has_plain_lookup(type)) return plain_attribute(object, name);
  PyObject* own = find_in_type(type, "__getattribute__");
  if (own && PyFunction_Check(own)) return allow(Entry::known);
  return abandon("an object with a lookup of its own", object);
}

bool Watcher::property_getter(PyObject* property, const guards::Source* source, PyObject* name) {
  PyObject* descriptor = member_descriptor(&PyProperty_Type, "fget");
  const Ref getter = Ref::steal(PyObject_GetAttrString(property, "fget"));
  if (!getter || !PyFunction_Check(getter.get())) return abandon("a property that is not written in Python", name);
  return (values_.learn(property, source) &&
          values_.learn(getter.get(), values_.sources().slot(source, descriptor)) && allow(Entry::known)) ||
         abandon("a property that cannot be guarded", name);
}

/// The descriptor of a field of a named tuple, on an instance: the item.
bool Watcher::named_tuple_field(PyObject* object, PyObject* field, const guards::Source* source) {
  return (PyTuple_Check(object) && values_.learn(field, source) && values_.open(object)) ||
         abandon("a field of a named tuple", object);
}

bool Watcher::plain_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(object);  // Null: made here.
  const guards::Source* in_type = sources.type_attribute(type_source(object), name);
  PyObject* found = find_in_type(type, name);
  const bool is_written = find_written(reinterpret_cast<PyObject*>(type), name);
  if (is_written && Py_TYPE(found)->tp_descr_get && !PyFunction_Check(found))
    return abandon("an attribute of a class that was changed", name);
  if (is_written) {
    // What the run put there needs no guard.
  } else if (!found) {
    values_.guards().absent(in_type);
  } else if (is_data_descriptor(found)) {
    if (Py_IS_TYPE(found, &PyProperty_Type)) return property_getter(found, in_type, name);
    if (is_named_tuple_field(found)) return named_tuple_field(object, found, in_type);
    if (guards::is_object_member(found)) {
      if (!source || values_.effects().wrote(object, found)) return true;
      const Ref value = Ref::steal(PyObject_GetAttr(object, name));
      if (!value) return abandon("a slot that is empty", name);
      return (values_.learn(found, in_type) && values_.learn(value.get(), sources.slot(source, found))) ||
             abandon("a slot that cannot be guarded", name);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) {
      PyObject* dict = guards::instance_dict(object);
      if (!dict || !PyDict_CheckExact(dict)) return abandon("an object without a dict", object);
      if (source)
        values_.learn_as(dict, sources.dict_of(source));  // Its entries as they were before the call.
      else
        values_.make(dict);
      return true;
    }
    const bool is_field = Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type);
    if (is_field && is_immutable_record(type)) return values_.pin(object) && allow_made_result();
    if (is_needs_input_grad(object, found)) return allow_made_result();
    if (Py_IS_TYPE(found, &PyGetSetDescr_Type) && PyExceptionInstance_Check(object) && !source) {
      // The exceptions that led to it are known, or of unknown origin; the rest is its own.
      const std::string_view text = text_of(name);
      return text == "__cause__" || text == "__context__" || allow_made_result();
    }
    // A data descriptor written in Python, such as the flags of torch.backends.
    if (learn_class_entry(found, in_type) && special_function(found, "__get__")) return allow(Entry::known);
    return abandon("a descriptor that is not understood", found);
  }
  PyObject* dict = guards::instance_dict(object);
  const bool is_own = !source || (dict && values_.effects().wrote(dict, name));
  if (PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr) {
    if (found && !is_written && !learn_class_entry(found, in_type)) return false;
    return is_own || values_.learn(value, sources.attribute(source, name)) ||
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
      if (learn_class_entry(found, in_type) && special_function(found, "__get__")) return allow(Entry::known);
      return abandon("a descriptor that is not understood", found);
    }
    if (Py_IS_TYPE(found, &PyClassMethod_Type) &&
        !values_.learn(reinterpret_cast<PyObject*>(type), type_source(object)))
      return abandon("a class that cannot be guarded", object);
    return learn_class_entry(found, in_type) && allow_made_result();
  }
  if (PyModule_Check(object)) {
    const Ref fallback = Ref::steal(PyUnicode_InternFromString("__getattr__"));
    if (!fallback || !source || !dict || PyDict_GetItemWithError(dict, fallback.get()))
      return abandon("a module with a __getattr__", object);
    values_.guards().absent(sources.attribute(source, fallback.get()));
  }
  if (special_function(object, "__getattr__")) return allow(Entry::known);
  return keep_special(object, {"__getattr__"});  // Nothing: an AttributeError, or the default of getattr().
}

bool Watcher::store_attribute(PyObject* object, PyObject* name, PyObject* value) {
  if (!values_.is_known(object)) return abandon("an attribute of an object of unknown origin is changed", object);
  if (values_.tensors().is_tensor(object)) return abandon("an attribute of a tensor is changed", name);
  if (PyType_Check(object)) return store_in_class(object, name, value);
  if (PyFunction_Check(object) && values_.is_made(object) && is_function_field(name)) return true;
  if (Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr)
    return keep_special(object, {"__setattr__"}) && plain_store(object, name, value);
  if (special_function(object, "__setattr__")) return allow(Entry::known);
  return abandon("an object that handles the change of its attributes itself", object);
}

bool Watcher::delete_attribute(PyObject* object, PyObject* name) {
  if (!values_.is_known(object)) return abandon("an attribute of an object of unknown origin is deleted", object);
  if (values_.tensors().is_tensor(object)) return abandon("an attribute of a tensor is deleted", name);
  if (PyType_Check(object)) return store_in_class(object, name, nullptr);
  if (Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr)
    return keep_special(object, {"__delattr__"}) && plain_store(object, name, nullptr);
  if (special_function(object, "__delattr__")) return allow(Entry::known);
  return abandon("an object that handles the change of its attributes itself", object);
}

/// Whether the run put what looking up `name` in a class finds there. The classes that are asked before lack it
/// then, and must go on doing so.
bool Watcher::find_written(PyObject* type, PyObject* name) {
  const Effects& effects = values_.effects();
  if (!effects.changed_classes() || !as_type(type)->tp_mro) return false;
  guards::SourceTable& sources = values_.sources();
  PyObject* mro = as_type(type)->tp_mro;
  std::vector<PyObject*> lacking;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(mro, i);
    if (!PyDict_GetItemWithError(guards::class_dict(as_type(base)), name)) {
      lacking.push_back(base);
      continue;
    }
    if (!effects.wrote(base, name)) return false;
    values_.guards().identity(
        sources.member(sources.object(type, as_type(type)->tp_name), guards::Member::type_mro), mro);
    for (PyObject* other : lacking)
      if (!effects.wrote(other, name))
        values_.guards().absent(
            sources.dict_item(sources.dict_of(sources.object(other, as_type(other)->tp_name)), name));
    return true;
  }
  return false;
}

/// An attribute of a class. Special methods would change what other instructions mean.
bool Watcher::store_in_class(PyObject* type, PyObject* name, PyObject* value) {
  if (!PyUnicode_CheckExact(name) || text_of(name).starts_with("__"))
    return abandon("a special attribute of a class is changed", name);
  if (is_exact_builtin(as_type(type))) return abandon("an attribute of a builtin class is changed", name);
  if (Py_TYPE(type)->tp_setattro != PyType_Type.tp_setattro)
    return abandon("a class that handles the change of its attributes itself", type);
  PyObject* meta = find_in_type(Py_TYPE(type), name);
  const std::string text(text_of(name));
  if (meta && is_data_descriptor(meta)) return abandon("an attribute that a metaclass changes", name);
  if (!keep_special(type, {"__setattr__", "__delattr__", text.c_str()})) return false;
  Effects& effects = values_.effects();
  if (!value && !effects.is_new_in_class(type, name)) return abandon("an attribute of a class is deleted", name);
  if (!values_.source_of(type)) return values_.is_made(type) || abandon("a class of unknown origin", type);
  if (!effects.wrote(type, name)) {
    PyObject* before = PyDict_GetItemWithError(guards::class_dict(as_type(type)), name);
    const guards::Source* entries = values_.sources().dict_of(class_source(type));
    if (!lets_go(before, values_.sources().dict_item(entries, name))) return false;
  }
  effects.store_in_class(type, name, value);
  return true;
}

bool Watcher::plain_store(PyObject* object, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(object);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(object);  // Null: made here.
  const guards::Source* in_type = sources.type_attribute(type_source(object), name);
  PyObject* found = find_in_type(type, name);
  if (find_written(reinterpret_cast<PyObject*>(type), name)) {
    if (is_data_descriptor(found)) return abandon("an attribute of a class that was changed", name);
  } else if (!found) {
    values_.guards().absent(in_type);
  } else if (!learn_class_entry(found, in_type)) {
    return false;
  }
  if (found && is_data_descriptor(found)) {
    if (guards::is_object_member(found)) {
      if (reinterpret_cast<PyMemberDescrObject*>(found)->d_member->flags & READONLY)
        return abandon("an attribute that is read-only", name);
      if (source && !value) return abandon("a slot is emptied", name);
      if (!source) return true;
      const guards::Source* slot = sources.slot(source, found);
      if (!values_.effects().wrote(object, found) && !lets_go(guards::load(*slot, object, {}), slot)) return false;
      values_.effects().store_slot(object, found, value);
      return true;
    }
    if (value && is_word_for_backward(object, found)) return true;
    if (!Py_IS_TYPE(found, &PyProperty_Type)) {
      if (special_function(found, value ? "__set__" : "__delete__")) return allow(Entry::known);
      return abandon("an attribute that a descriptor changes", name);
    }
    const char* part = value ? "fset" : "fdel";
    const Ref setter = Ref::steal(PyObject_GetAttrString(found, part));
    PyObject* descriptor = member_descriptor(&PyProperty_Type, part);
    if (!setter || !PyFunction_Check(setter.get())) return abandon("a property without a setter in Python", name);
    return (values_.learn(setter.get(), sources.slot(in_type, descriptor)) && allow(Entry::known)) ||
           abandon("a property that cannot be guarded", name);
  }
  PyObject* dict = guards::instance_dict(object);
  if (!dict || !PyDict_CheckExact(dict)) return abandon("an object without a dict", object);
  if (!source) return true;
  if (!PyUnicode_CheckExact(name) || !guards::has_plain_keys(dict))
    return abandon("a dict of its own kind", object);
  const bool is_older = !values_.effects().wrote(dict, name);
  if (is_older && !lets_go(PyDict_GetItemWithError(dict, name), sources.attribute(source, name))) return false;
  if (value) {
    values_.effects().store_entry(dict, name, value, object);
    return true;
  }
  if (!PyDict_Contains(dict, name)) return abandon("an attribute is deleted that is not there", name);
  const bool wrote = values_.effects().wrote(dict, name);
  PyObject* old = PyDict_GetItemWithError(dict, name);
  if (!wrote && !values_.learn(old, sources.attribute(source, name)))
    return abandon("an attribute that cannot be guarded", name);
  values_.effects().delete_entry(dict, name, object);
  return true;
}

}  // namespace braze::interpreter
