// python/interpreter/watch/attribute_stores.cpp: what changing an attribute changes.
#include <Python.h>
#include <structmember.h>

#include <string>
#include <vector>

#include "python/guards/storage_access.h"
#include "python/guards/thread_locals.h"
#include "python/interpreter/watch/attributes.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// A class with one of `__setattr__` and `__delattr__` in Python has object's for the other.
bool leaves_to_object(PyTypeObject* type, const char* name) {
  return find_in_type(type, name) == find_in_type(&PyBaseObject_Type, name);
}

/// As object does. A threading.local does so in the dict that it has for this thread, which cannot be replaced.
bool stores_plainly(PyObject* object, PyObject* name) {
  const setattrofunc setter = Py_TYPE(object)->tp_setattro;
  return setter == PyObject_GenericSetAttr || (guards::is_thread_local(object) && text_of(name) != "__dict__" &&
                                               setter == guards::thread_local_setter());
}

}  // namespace

bool Attributes::store_attribute(PyObject* object, PyObject* name, PyObject* value) {
  if (!values_.is_known(object)) return abandon("an attribute of an object of unknown origin is changed", object);
  if (values_.tensors().is_tensor(object)) return watch_.tensor_attributes.store_own(object, name, value);
  if (PyType_Check(object)) return store_in_class(object, name, value);
  if (PyFunction_Check(object) && values_.is_made(object) && is_function_field(name)) return true;
  if (stores_plainly(object, name))
    return watch_.classes.keep_special(object, {"__setattr__"}) && plain_store(object, name, value);
  if (watch_.classes.special_function(object, "__setattr__")) return allow(Entry::known);
  if (leaves_to_object(Py_TYPE(object), "__setattr__"))
    return watch_.classes.keep_special(object, {"__setattr__"}) && plain_store(object, name, value);
  PyObject* setter =
      find_in_type(Py_TYPE(object), "__setattr__");  // Of dict, say: `__setattr__ = dict.__setitem__`.
  if (setter && (Py_IS_TYPE(setter, &PyMethodDescr_Type) || Py_IS_TYPE(setter, &PyWrapperDescr_Type)) &&
      PyDict_Check(object)) {
    PyObject* const arguments[] = {name, value};
    return watch_.classes.keep_special(object, {"__setattr__"}) &&
           watch_.methods.call_descriptor(setter, object, arguments, 2);
  }
  return abandon("an object that handles the change of its attributes itself", object);
}

bool Attributes::delete_attribute(PyObject* object, PyObject* name) {
  if (!values_.is_known(object)) return abandon("an attribute of an object of unknown origin is deleted", object);
  if (values_.tensors().is_tensor(object)) return watch_.tensor_attributes.store_own(object, name, nullptr);
  if (PyType_Check(object)) return store_in_class(object, name, nullptr);
  if (stores_plainly(object, name))
    return watch_.classes.keep_special(object, {"__delattr__"}) && plain_store(object, name, nullptr);
  if (watch_.classes.special_function(object, "__delattr__")) return allow(Entry::known);
  if (leaves_to_object(Py_TYPE(object), "__delattr__"))
    return watch_.classes.keep_special(object, {"__delattr__"}) && plain_store(object, name, nullptr);
  return abandon("an object that handles the change of its attributes itself", object);
}

/// Whether the run put what looking up `name` in a class finds there. The classes that are asked before lack it
/// then, and must go on doing so.
bool Attributes::find_written(PyObject* type, PyObject* name) {
  const Effects& effects = values_.effects();
  if (!effects.changed(Storage::class_) || !as_type(type)->tp_mro) return false;
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
bool Attributes::store_in_class(PyObject* type, PyObject* name, PyObject* value) {
  if (!PyUnicode_CheckExact(name) || text_of(name).starts_with("__"))
    return abandon("a special attribute of a class is changed", name);
  if (is_exact_builtin(as_type(type))) return abandon("an attribute of a builtin class is changed", name);
  if (Py_TYPE(type)->tp_setattro != PyType_Type.tp_setattro)
    return abandon("a class that handles the change of its attributes itself", type);
  PyObject* meta = find_in_type(Py_TYPE(type), name);
  const std::string text(text_of(name));
  if (meta && is_data_descriptor(meta)) return abandon("an attribute that a metaclass changes", name);
  if (!watch_.classes.keep_special(type, {"__setattr__", "__delattr__", text.c_str()})) return false;
  Effects& effects = values_.effects();
  if (!value && !effects.is_new_in_class(type, name)) return abandon("an attribute of a class is deleted", name);
  if (!values_.source_of(type)) return values_.is_made(type) || abandon("a class of unknown origin", type);
  if (!effects.wrote(type, name)) {
    PyObject* before = PyDict_GetItemWithError(guards::class_dict(as_type(type)), name);
    const guards::Source* entries = values_.sources().dict_of(watch_.classes.class_source(type));
    if (!lets_go(before, values_.sources().dict_item(entries, name))) return false;
  }
  effects.store_in_class(type, name, value);
  return true;
}

bool Attributes::plain_store(PyObject* object, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(object);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(object);  // Null: made here.
  const guards::Source* in_type = sources.type_attribute(type_source(values_, object), name);
  PyObject* found = find_in_type(type, name);
  if (find_written(reinterpret_cast<PyObject*>(type), name)) {
    if (is_data_descriptor(found)) return abandon("an attribute of a class that was changed", name);
  } else if (!found) {
    values_.guards().absent(in_type);
  } else if (!watch_.classes.learn_class_entry(found, in_type)) {
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
    if (value && watch_.autograd_functions.is_word_for_backward(object, found)) return true;
    // As contextlib's managers do with what their body raises. Natively, too, only a traceback can be put there.
    const bool is_traceback = PyExceptionInstance_Check(object) && !source && value &&
                              text_of(name) == "__traceback__" && Py_IS_TYPE(found, &PyGetSetDescr_Type);
    if (is_traceback) return true;
    if (!Py_IS_TYPE(found, &PyProperty_Type)) {
      if (watch_.classes.special_function(found, value ? "__set__" : "__delete__")) return allow(Entry::known);
      return abandon("an attribute that a descriptor changes", name);
    }
    const char* part = value ? "fset" : "fdel";
    const Ref setter = Ref::steal(PyObject_GetAttrString(found, part));
    PyObject* descriptor = member_descriptor(&PyProperty_Type, part);
    if (!setter || !PyFunction_Check(setter.get())) return abandon("a property without a setter in Python", name);
    return (values_.learn(setter.get(), sources.slot(in_type, descriptor)) && allow(Entry::known)) ||
           abandon("a property that cannot be guarded", name);
  }
  return store_in_dict(object, name, value);
}

bool Attributes::store_in_dict(PyObject* object, PyObject* name, PyObject* value) {
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(object);  // Null: made here.
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
