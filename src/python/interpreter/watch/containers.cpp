// python/interpreter/watch/containers.cpp
#include "python/interpreter/watch/containers.h"

#include <algorithm>

#include "python/guards/array.h"
#include "python/guards/deque.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/sequence_place.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/addresses.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/running_threads.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

PyTypeObject* default_dict_type() {
  PyObject* collections = PyDict_GetItemString(PyImport_GetModuleDict(), "collections");
  PyObject* type = collections && PyModule_Check(collections)
                       ? PyDict_GetItemString(PyModule_GetDict(collections), "defaultdict")
                       : nullptr;
  return type && PyType_Check(type) && is_exact_builtin(reinterpret_cast<PyTypeObject*>(type))
             ? reinterpret_cast<PyTypeObject*>(type)
             : nullptr;
}

bool has_tensor_key(PyObject* dict, PyObject* key) {
  const bool is_there =
      guards::can_look_up(dict, key) && _PyDict_GetItem_KnownHash(dict, key, guards::hash_of_key(key)) != nullptr;
  PyErr_Clear();
  return is_there;
}

/// Of a classmethod: C code that calls it enters Python.
bool class_method_is_python(PyObject* method) {
  const Ref function = Ref::steal(PyObject_GetAttrString(method, "__func__"));
  return function && PyFunction_Check(function.get());
}

/// `list[-1]` and its like, of an older list that a frame holds and the run has not changed: guarded as that item,
/// whatever else the list holds. Numbers may vary, which open() sees to.
bool learn_item_from_end(WatchedRun& run, PyObject* list, PyObject* key) {
  Values& values = run.values;
  const guards::Source* source = PyList_CheckExact(list) ? values.source_of(list) : nullptr;
  if (!run.root || !source || !PyLong_CheckExact(key) || values.effects().changed(list)) return false;
  int overflow = 0;
  const long index = PyLong_AsLongAndOverflow(key, &overflow);
  if (overflow || index >= 0 || index < -PyList_GET_SIZE(list) || index < INT32_MIN) return false;
  PyObject* item = PyList_GET_ITEM(list, PyList_GET_SIZE(list) + index);
  const uint32_t place = guards::sequence_index(static_cast<int32_t>(index));
  return !guards::is_scalar(item) && values.learn(item, values.sources().sequence_item(source, place));
}

}  // namespace

bool Containers::subscript(PyObject* container, PyObject* key) {
  if (values_.tensors().is_tensor(container))
    return operand(container, "a tensor of unknown origin") && operand(key, "an index of unknown origin") &&
           allow_made_result(Entry::tensor);
  if (guards::is_scalar(container)) return operand(key, "an index of unknown origin") && allow_made_result();
  if (PyObject* dict = watch_.views.dict_behind(container)) return subscript(dict, key);
  if (!values_.is_known(container)) return abandon("a subscript of an object of unknown origin", container);
  if (PyType_Check(container) && is_exact_builtin(as_type(container)))
    return watch_.generic_types.is_part_of_type(key) ? watch_.generic_types.subscript_type(container, key)
                                                     : allow_made_result();  // list[int]
  if (watch_.generic_types.is_generic(container)) return watch_.generic_types.subscript_type(container, key);
  if (guards::is_number_array(container)) return watch_.arrays.subscript(container, key);
  if (PyRange_Check(container)) return operand(key, "an index of unknown origin") && allow_made_result();
  if (is_a(container, "re.Match"))
    return (values_.pin(container) && operand(key, "an index of unknown origin") && allow_made_result()) ||
           abandon("a subscript that is not understood", container);
  if (guards::is_deque(container))
    return (values_.open(container) && operand(key, "an index of unknown origin")) ||
           abandon("a deque that cannot be guarded", container);
  const bool is_builtin = watch_.classes.acts_as_builtin(container, "__getitem__");
  if (PyDict_Check(container) && is_builtin) {
    if (guards::is_tensor_key(key)) return entry_by_tensor(container, key);
    if (!is_exact_dict(container)) {
      if (!has_plain_entry(container, key)) return !abandoned() && missing_entry(container, key);
    }
    return look_up(container, key);
  }
  if (is_builtin && !PyAnySet_Check(container))
    return (operand(key, "an index of unknown origin") &&
            (is_own_item(container, key) || learn_item_from_end(run_, container, key) ||
             (values_.open(container) && allow_made_result()))) ||
           abandon("a container that cannot be guarded", container);
  if (values_.is_made(container) && PyTuple_Check(container))
    return allow_made_result();  // torch.Size, named tuples
  if (is_a(container, "torch.Size"))
    return operand(container, "a container that cannot be guarded") && operand(key, "an index of unknown origin") &&
           allow_made_result();
  if (watch_.classes.special_function(container, "__getitem__")) return allow(Entry::known);
  if (PyObject* part = interned("__class_getitem__"); part && PyType_Check(container)) {
    PyObject* found = find_in_type(as_type(container), part);
    const bool is_python = found && Py_IS_TYPE(found, &PyClassMethod_Type) && class_method_is_python(found);
    if (is_python && watch_.attributes.attribute(container, part)) {
      activity().makes_result = false;
      return watch_.classes.keep_special(container, {"__getitem__"}) && allow(Entry::known);
    }
    if (abandoned()) return false;
  }
  return abandon("a subscript that is not understood", container);
}

/// `list[-1]` and its like, of an older list, is what the run has appended: whatever else the list holds. One that
/// was changed otherwise has been opened.
bool Containers::is_own_item(PyObject* list, PyObject* key) const {
  const Effects& effects = values_.effects();
  if (!PyList_Check(list) || !PyLong_CheckExact(key) || !effects.changed(list)) return false;
  if (!stored_at(effects, list).empty()) return false;
  int overflow = 0;
  const long long index = PyLong_AsLongLongAndOverflow(key, &overflow);
  const Py_ssize_t added = PyList_GET_SIZE(list) - PyList_GET_SIZE(effects.before(list));
  return !overflow && index < 0 && -index <= added;
}

/// As optimizers keep their state. What is not there yet a native run will have made.
bool Containers::entry_by_tensor(PyObject* dict, PyObject* key) {
  if (!watch_.classes.keep_special(key, {"__hash__", "__eq__"}) || !hashes(key))
    return abandon("a key that is no scalar", key);
  if (values_.is_made(dict)) {
    if (is_exact_dict(dict) || has_tensor_key(dict, key)) return true;
    return Py_IS_TYPE(dict, default_dict_type()) ? missing_entry(dict, key)
                                                 : abandon("a key that is no scalar", key);
  }
  run_.is_for_later = !is_exact_dict(dict) && !has_tensor_key(dict, key);
  return (!run_.is_for_later && values_.look_up(dict, key)) ||
         abandon("an entry of a dict that cannot be guarded", key);
}

/// An entry that a subclass of dict may make when it is asked for one that is not there.
bool Containers::missing_entry(PyObject* dict, PyObject* key) {
  if (!look_up(dict, key)) return false;
  if (watch_.classes.special_function(dict, "__missing__")) return allow(Entry::known);
  if (!find_in_type(Py_TYPE(dict), "__missing__")) return watch_.classes.keep_special(dict, {"__missing__"});
  if (!Py_IS_TYPE(dict, default_dict_type())) return abandon("a key that a subclass of dict does not have", key);
  PyObject* descriptor = PyDict_GetItemString(guards::class_dict(Py_TYPE(dict)), "default_factory");
  const Ref factory = Ref::steal(PyObject_GetAttrString(dict, "default_factory"));
  const guards::Source* source = values_.source_of(dict);
  if (!factory || !descriptor) return abandon(Break::no_memory);
  if (source && !values_.learn(factory.get(), values_.sources().slot(source, descriptor)))
    return abandon("a factory that cannot be guarded", factory.get());
  if (factory.get() == Py_None) return true;  // A KeyError.
  if (!watch_.calls.call(factory.get(), nullptr, 0) || !hashes(key)) return false;
  if (source) {
    values_.effects().will_fill(dict);
    activity().fills = dict;
    activity().key = key;
  }
  return true;
}

bool Containers::contains(PyObject* container, PyObject* item) {
  if (guards::is_scalar(container) && guards::is_scalar(item)) return true;
  if (PyRange_Check(container) && values_.is_known(container) && guards::is_scalar(item)) return true;
  if (!values_.is_known(container)) return abandon("`in` an object of unknown origin", container);
  if (PyObject* dict = watch_.views.dict_behind(container))
    return watch_.views.view_contains(container, dict, item);
  if (guards::is_deque(container))
    return operand(container, "a deque of objects") && operand(item, "an item of unknown origin");
  const bool is_builtin = watch_.classes.acts_as_builtin(container, "__contains__");
  if (!is_builtin && watch_.classes.special_function(container, "__contains__"))
    return watch_.classes.keep_special(container, {"__bool__"}) && allow_made_result(Entry::known);
  if (PyDict_Check(container) && is_builtin) return look_up(container, item);
  if (!is_builtin) return abandon("`in` that is not understood", container);
  if (PyAnySet_CheckExact(container) && values_.is_made(container))
    return keys_fit(values_, container, item) ? hashes(item) : abandon(Break::address_of_object);
  if (values_.look_up_member(container, item)) return hashes(item);
  if (asks_items(container, item)) return true;
  if (abandoned()) return false;
  const bool is_derived = is_derived_scalar(item) ? absorb(values_, item)
                                                  : PyTuple_Check(item) && watch_.conversions.formats_as_data(item);
  if (holds_address(values_, item)) return abandon(Break::address_of_object);
  if (!guards::is_scalar(item) && !values_.tensors().is_plain(item) && !is_derived)
    return abandon("`in` with an item that is no scalar", item);
  if (PyAnySet_CheckExact(container))
    return values_.open(container) || abandon("a set that cannot be guarded", container);
  return operand(container, "a container that cannot be guarded");
}

bool Containers::store_item(PyObject* container, PyObject* key, PyObject* value) {
  if (values_.tensors().is_tensor(container))
    return operand(container, "a tensor of unknown origin") && operand(key, "an index of unknown origin") &&
           operand(value, "a value of unknown origin") && allow(Entry::tensor);
  if (!values_.is_known(container)) return abandon("an item is stored into an object of unknown origin", container);
  if (guards::is_number_array(container)) return watch_.arrays.store_item(container, key, value);
  const bool is_builtin = watch_.classes.acts_as_builtin(container, "__setitem__");
  if (PyDict_Check(container) && is_builtin) return store_entry(container, key, value);
  if (PyList_Check(container) && is_builtin) {
    if (!operand(key, "an index of unknown origin")) return false;
    if (PyLong_CheckExact(key) && values_.source_of(container) && !has_other_threads())
      return store_in_list(container, key, value);
    if (PySlice_Check(key) && !iterate(value)) return false;
    return change_list(container);
  }
  if (guards::is_deque(container)) return watch_.deques.store_in_deque(container, key, value);
  if (watch_.classes.special_function(container, "__setitem__")) return allow(Entry::known);
  return abandon("an item is stored into an object that is not understood", container);
}

/// At a place of an older list, whatever it holds: a replay does likewise.
bool Containers::store_in_list(PyObject* list, PyObject* index, PyObject* value) {
  const Effects& effects = values_.effects();
  const guards::Source* source = values_.source_of(list);
  const auto before = static_cast<size_t>(guards::length_of(effects.changed(list) ? effects.before(list) : list));
  values_.guards().length(source, before);
  const Py_ssize_t place = PyLong_AsSsize_t(index), size = PyList_GET_SIZE(list);
  if (place == -1 && PyErr_Occurred()) PyErr_Clear();
  if (place < -size || place >= size) return true;  // An IndexError.
  if (!lets_go(list, source, true)) return false;
  interpreter::store_in_list(values_.effects(), list, index, value);
  return true;
}

bool Containers::store_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (values_.is_made(dict)) return keys_fit(values_, dict, key) ? hashes(key) : abandon(Break::address_of_object);
  const bool is_plain = guards::is_tensor_key(key) ? guards::can_look_up(dict, key)
                                                   : guards::is_plain_key(key) && (PyUnicode_CheckExact(key) ||
                                                                                   guards::has_plain_keys(dict));
  const bool fits = is_plain && (guards::is_scalar(key) || !PyODict_Check(dict) || !guards::is_enum_member(key));
  if (!fits || !values_.is_known(key) || (!guards::is_scalar(key) && (!hashes(key) || !values_.pin(key))))
    return abandon("a key that hashes itself", key);
  if (!lets_go_of_entry(dict, key)) return false;
  values_.effects().store_entry(dict, key, value);
  return true;
}

/// The entry is there, and at later calls too.
bool Containers::delete_entry(PyObject* dict, PyObject* key) {
  if (values_.is_made(dict)) return keys_fit(values_, dict, key) ? hashes(key) : abandon(Break::address_of_object);
  if (!look_up_plain(dict, key)) return false;
  if (!guards::entry_of_key(dict, key)) return true;  // A KeyError, or the default of pop().
  if (!lets_go_of_entry(dict, key)) return false;
  values_.effects().delete_entry(dict, key);
  return true;
}

bool Containers::delete_item(PyObject* container, PyObject* key) {
  if (!values_.is_known(container)) return abandon("an item of an object of unknown origin is deleted", container);
  const bool is_builtin = watch_.classes.acts_as_builtin(container, "__delitem__");
  if (PyDict_Check(container) && is_builtin) return delete_entry(container, key);
  if (PyList_Check(container) && is_builtin)
    return operand(key, "an index of unknown origin") && change_list(container);
  if (watch_.classes.special_function(container, "__delitem__")) return allow(Entry::known);
  return abandon("an item is deleted from an object that is not understood", container);
}

bool Containers::change_list(PyObject* list) {
  if (values_.is_made(list)) return true;
  if (!values_.open(list)) return abandon("a container that cannot be guarded", list);
  if (!lets_go(list, values_.source_of(list), true)) return false;
  values_.effects().change_list(list);
  return true;
}

bool Containers::append(PyObject* list, PyObject* item) {
  if (values_.is_made(list)) return true;
  if (!values_.source_of(list)) return abandon("a container that is being built grows", list);
  values_.effects().append(list, item);
  return true;
}

/// A replay appends, whatever the list held before.
bool Containers::extend(PyObject* list, PyObject* iterable) {
  const bool is_sequence = PyList_CheckExact(iterable) || PyTuple_CheckExact(iterable);
  if (!is_sequence || list == iterable) return change_list(list) && iterate(iterable);
  if (!values_.is_known(iterable)) return abandon("iteration over an object of unknown origin", iterable);
  if (!values_.open(iterable)) return abandon("a container that cannot be guarded", iterable);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(iterable); ++i)
    values_.effects().append(list, PySequence_Fast_GET_ITEM(iterable, i));
  return true;
}

bool Containers::iterate(PyObject* iterable) {
  if (guards::is_scalar(iterable)) return allow_made_result();
  if (values_.tensors().is_tensor(iterable))
    return operand(iterable, "a tensor of unknown origin") && allow_made_result(Entry::tensor);
  if (!values_.is_known(iterable)) return abandon("iteration over an object of unknown origin", iterable);
  if (PyObject* dict = PyDict_Check(iterable) ? iterable : watch_.views.dict_behind(iterable))
    values_.iterate_dict(dict);
  if (guards::is_number_array(iterable)) return watch_.arrays.iterate(iterable);
  if (PyRange_Check(iterable)) return allow_made_result();  // What it gives, its guards say.
  if (Py_IS_TYPE(iterable, &PyDictProxy_Type))
    return watch_.views.dict_behind(iterable) ? iterate(watch_.views.dict_behind(iterable))
                                              : abandon("a proxy of unknown origin", iterable);
  if (PyAnySet_Check(iterable) && !values_.has_known_order(iterable))
    return abandon("iteration over a set whose order may differ", iterable);
  if (watch_.classes.acts_as_builtin(iterable, "__iter__") || guards::is_deque(iterable))
    return (values_.open(iterable) && allow_made_result()) ||
           abandon("a container that cannot be guarded", iterable);
  if (watch_.iterables.goes_by_index(iterable)) return allow_made_result(Entry::known);
  if (watch_.classes.special_function(iterable, "__iter__") || values_.is_made(iterable)) {
    values_.keep_protocols(iterable);  // C code asks how long it is before it goes through it.
    for (const char* name : {"__len__", "__length_hint__"}) watch_.classes.special_function(iterable, name);
    return allow_made_result(Entry::known);
  }
  return abandon("iteration that is not understood", iterable);
}

}  // namespace braze::interpreter
