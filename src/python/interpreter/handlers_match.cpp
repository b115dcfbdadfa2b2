// python/interpreter/handlers_match.cpp: the match statement (PEP 634).
#include "python/interpreter/handlers.h"

namespace braze::interpreter {

namespace {

const char* class_name(PyObject* type) {
  return reinterpret_cast<PyTypeObject*>(type)->tp_name;
}

/// Adds to `seen`; false if it was there or on an exception.
bool add_once(PyObject* seen, PyObject* key) {
  const int there = PySet_Contains(seen, key);
  return there == 0 && PySet_Add(seen, key) == 0;
}

/// An attribute for a sub-pattern; null without an exception if there is none.
Ref sub_pattern(PyObject* subject, PyObject* type, PyObject* name, PyObject* seen) {
  if (!add_once(seen, name)) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", class_name(type), name);
    return {};
  }
  Ref attribute = Ref::steal(PyObject_GetAttr(subject, name));
  if (!attribute && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return attribute;
}

/// The names of positional sub-patterns. Null with an exception, or without one for classes such as int that match
/// their subject itself.
Ref positional_names(PyObject* type) {
  Ref names = Ref::steal(PyObject_GetAttrString(type, "__match_args__"));
  if (names) {
    if (PyTuple_CheckExact(names.get())) return names;
    PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", class_name(type),
                 Py_TYPE(names.get())->tp_name);
    return {};
  }
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
  PyErr_Clear();
  if (PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), _Py_TPFLAGS_MATCH_SELF)) return {};
  return Ref::steal(PyTuple_New(0));
}

bool append_positional(PyObject* found, PyObject* subject, PyObject* type, int count, PyObject* seen) {
  const Ref names = positional_names(type);
  if (!names && PyErr_Occurred()) return false;
  const Py_ssize_t allowed = names ? PyTuple_GET_SIZE(names.get()) : 1;
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%d given)", class_name(type), allowed,
                 allowed == 1 ? "" : "s", count);
    return false;
  }
  if (!names) return PyList_Append(found, subject) == 0;
  for (int i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    const Ref attribute = sub_pattern(subject, type, name, seen);
    if (!attribute || PyList_Append(found, attribute.get()) < 0) return false;
  }
  return true;
}

/// The attributes of all sub-patterns as a tuple; null if it does not match or on an exception.
Ref class_attributes(PyObject* subject, PyObject* type, int positional, PyObject* keywords) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a type");
    return {};
  }
  if (PyObject_IsInstance(subject, type) <= 0) return {};
  const Ref seen = Ref::steal(PySet_New(nullptr)), found = Ref::steal(PyList_New(0));
  if (!seen || !found) return {};
  if (positional && !append_positional(found.get(), subject, type, positional, seen.get())) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    const Ref attribute = sub_pattern(subject, type, PyTuple_GET_ITEM(keywords, i), seen.get());
    if (!attribute || PyList_Append(found.get(), attribute.get()) < 0) return {};
  }
  return Ref::steal(PyList_AsTuple(found.get()));
}

/// The values of all keys as a tuple, None if one is missing; null with an exception. Asks the mapping's get() with
/// a default of our own, so that a __missing__ does not run and nothing is added to a defaultdict.
Ref key_values(PyObject* map, PyObject* keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return Ref::steal(PyTuple_New(0));
  const Ref get = Ref::steal(PyObject_GetAttrString(map, "get"));
  const Ref seen = Ref::steal(PySet_New(nullptr));
  const Ref missing = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  Ref values = Ref::steal(PyTuple_New(count));
  if (!get || !seen || !missing || !values) return {};
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (!add_once(seen.get(), key)) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return {};
    }
    PyObject* value = PyObject_CallFunctionObjArgs(get.get(), key, missing.get(), nullptr);
    if (!value) return {};
    PyTuple_SET_ITEM(values.get(), i, value);
    if (value == missing.get()) return Ref::borrow(Py_None);
  }
  return values;
}

Step has_flag(Activation& a, unsigned long flag) {
  a.push_bool(Py_TYPE(a.peek(1))->tp_flags & flag);
  return Step::next;
}

}  // namespace

// These leave the subject on the stack.
Step get_len(Activation& a, int) {
  const Py_ssize_t length = PyObject_Length(a.peek(1));
  return length < 0 ? Step::error : a.push_result(PyLong_FromSsize_t(length));
}

Step match_mapping(Activation& a, int) {
  return has_flag(a, Py_TPFLAGS_MAPPING);
}

Step match_sequence(Activation& a, int) {
  return has_flag(a, Py_TPFLAGS_SEQUENCE);
}

// The stack: subject, keys.
Step match_keys(Activation& a, int) {
  return a.push_result(key_values(a.peek(2), a.peek(1)).release());
}

// From [subject, class, names of keyword sub-patterns] to [attributes or None].
Step match_class(Activation& a, int arg) {
  const Value names = a.pop(), type = a.pop(), subject = a.pop();
  Ref attributes = class_attributes(subject.get(), type.get(), arg, names.get());
  if (!attributes && PyErr_Occurred()) return Step::error;
  a.push(attributes ? std::move(attributes) : Ref::borrow(Py_None));
  return Step::next;
}

}  // namespace braze::interpreter
