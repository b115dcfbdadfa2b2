// python/interpreter/watch/copies.cpp
#include "python/interpreter/watch/copies.h"

#include "python/guards/imports.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

bool is_of_object(PyObject* type, const char* name) {
  return class_entry(type, name) == class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
}

/// What a class may say is the state of its instances, by a method in Python.
bool leaves_to_object(PyObject* type) {
  PyObject* state = class_entry(type, "__getstate__");
  return is_of_object(type, "__reduce_ex__") && is_of_object(type, "__reduce__") &&
         (is_of_object(type, "__getstate__") || (state && PyFunction_Check(state))) &&
         !class_entry(type, "__getnewargs_ex__");
}

Ref from_copyreg(const char* name) {
  const Ref module = guards::import_module("copyreg");
  Ref found = Ref::steal(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  PyErr_Clear();
  return found;
}

/// Its class, and what its own `__getstate__` gives, as a dataclass with slots has one.
bool reduce_by_own_state(Watch& watch, PyObject* object) {
  PyObject* const name = interned("__getstate__");
  PyObject* const attributes = guards::instance_dict(object);
  const bool is_understood =
      name && !(attributes && PyDict_GetItemWithError(attributes, name)) &&
      !class_entry(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__getnewargs__") &&
      watch.attributes.attribute(object, name) && watch.classes.special_function(object, "__getstate__") &&
      watch.classes.keep_special(object, {"__reduce_ex__", "__reduce__", "__getnewargs_ex__", "__getnewargs__"});
  if (!is_understood) return watch.run.abandon("a copy of an object of this kind", object);
  watch.run.activity().reduces = object;
  return watch.run.allow_made_result(Entry::known);
}

}  // namespace

bool runs_module_copy() {
  PyObject* copy = PyDict_GetItemString(PyImport_GetModuleDict(), "copy");
  return copy && PyModule_Check(copy) &&
         PyModule_GetDict(copy) == PyThreadState_Get()->cframe->current_frame->f_globals;
}

/// What torch.Size and OrderedDict say: class, arguments, and the entries as an iterator.
bool Copies::reduce_builtin(PyObject* object) {
  if (!values_.open(object)) return abandon("a container that cannot be guarded", object);
  if (PyDict_Check(object)) values_.iterate_dict(object);
  PyObject* attributes = guards::instance_dict(object);
  const guards::Source* source = values_.source_of(object);
  if (attributes && PyDict_GET_SIZE(attributes) > 0) return abandon("a copy of a dict with attributes", object);
  if (attributes && source) values_.guards().length(values_.sources().dict_of(source), 0);
  activity().reduces = object;
  activity().is_quiet = true;
  return allow_made_result(Entry::trusted);  // A class is asked for its slots.
}

bool Copies::reduce(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const bool is_ordinary = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE &&
                           !values_.tensors().is_tensor(object) && !PyType_Check(object) &&
                           !PyExceptionInstance_Check(object) && (!storage_type(object) || PyTuple_Check(object)) &&
                           !is_derived_scalar(object);
  const bool asks_for_copy = count == 1 && PyLong_CheckExact(arguments[0]) && PyLong_AsLong(arguments[0]) >= 2;
  if (asks_for_copy && (is_a(object, "torch.Size") || PyODict_CheckExact(object))) return reduce_builtin(object);
  if (!is_ordinary || !asks_for_copy || !leaves_to_object(type))
    return abandon("a copy of an object of this kind", object);
  if (!is_of_object(type, "__getstate__")) return reduce_by_own_state(watch_, object);
  // A class is told its slots when it is first asked for them.
  const Ref slot_names = from_copyreg("_slotnames");
  const Ref slots = [&] {
    const Pause unwatched;
    return Ref::steal(slot_names ? PyObject_CallOneArg(slot_names.get(), type) : nullptr);
  }();
  PyErr_Clear();
  if (!slots || !PyList_Check(slots.get()) || !learn_slots(object, slots.get()))
    return !abandoned() && abandon("a copy of an object with slots", object);
  if (!watch_.classes.keep_special(
          object, {"__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__"}))
    return false;
  if (class_entry(type, "__getnewargs__") && !watch_.classes.special_function(object, "__getnewargs__"))
    return abandon("a copy of an object of this kind", object);
  activity().reduces = object;
  return allow_made_result(Entry::known);
}

/// C code asks the object for each by its name, and leaves out those that are empty.
bool Copies::learn_slots(PyObject* object, PyObject* names) {
  if (PyList_GET_SIZE(names) == 0) return true;
  PyTypeObject* const type = Py_TYPE(object);
  if (type->tp_getattro != PyObject_GenericGetAttr ||
      !watch_.classes.keep_special(object, {"__getattribute__", "__getattr__"}))
    return false;
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = values_.source_of(object);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i) {
    PyObject* name = PyList_GET_ITEM(names, i);
    PyObject* found = find_in_type(type, name);
    if (!found || !guards::is_object_member(found) ||
        !values_.learn(found, sources.type_attribute(type_source(values_, object), name)))
      return false;
    if (!source || values_.effects().wrote(object, found)) continue;
    const guards::Source* slot = sources.slot(source, found);
    const Ref value = Ref::borrow(guards::load(*slot, object, {}));
    if (!value)
      values_.guards().absent(slot);
    else if (!values_.learn(value.get(), slot))
      return false;
  }
  return true;
}

void Copies::learn_reduced(PyObject* object, PyObject* parts) {
  if (!PyTuple_CheckExact(parts) || PyTuple_GET_SIZE(parts) < 2) return;
  guards::SourceTable& sources = values_.sources();
  if (is_exact_builtin(Py_TYPE(object))) {  // It has no state, and what it gives is new.
    PyObject *type = PyTuple_GET_ITEM(parts, 0), *arguments = PyTuple_GET_ITEM(parts, 1);
    values_.learn(type, sources.object(type, Py_TYPE(object)->tp_name));
    values_.make(arguments);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) values_.make(PyTuple_GET_ITEM(arguments, i));
    for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(parts); ++i) values_.make(PyTuple_GET_ITEM(parts, i));
    return;
  }
  if (PyTuple_GET_SIZE(parts) < 3) return;
  PyObject *maker = PyTuple_GET_ITEM(parts, 0), *arguments = PyTuple_GET_ITEM(parts, 1),
           *state = PyTuple_GET_ITEM(parts, 2);
  values_.learn(maker, sources.object(maker, "copyreg.__newobj__"));
  values_.make(arguments);
  values_.learn(reinterpret_cast<PyObject*>(Py_TYPE(object)), type_source(values_, object));
  const guards::Source* source = values_.source_of(object);
  if (!is_of_object(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__getstate__")) return;  // Watched.
  if (PyTuple_CheckExact(state) && PyTuple_GET_SIZE(state) == 2) {
    values_.make(state);
    values_.make(PyTuple_GET_ITEM(state, 1));
    state = PyTuple_GET_ITEM(state, 0);
  }
  if (state == Py_None || state != guards::instance_dict(object)) return;
  if (source)
    values_.learn_as(state, sources.dict_of(source));
  else
    values_.make(state);
}

bool Copies::address(PyObject* object) {
  const bool is_object = values_.is_known(object) && !guards::is_scalar(object);
  // Tensors are other ones at nearly every call, and so is what the run makes.
  const bool is_another = values_.tensors().is_tensor(object) || !values_.source_of(object);
  if ((runs_module_copy() && values_.is_known(object)) || (is_object && is_another)) {
    values_.tell_apart(object);
    activity().makes_address = true;
    return true;
  }
  return (values_.source_of(object) && values_.pin(object)) ||
         abandon("the address of an object that is another one in every run", object);
}

}  // namespace braze::interpreter
