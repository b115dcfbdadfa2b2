// python/interpreter/watch/keys.cpp: what a dict or set does with a key: hashes it, and compares it with its own.
//
//   plain keys (guards/source.h)   in C code, by value or address: a guard is about one entry
//   keys of other classes          in Python code, which is watched: guards are about all keys, and the hashes that
//                                  the container keeps of them
#include "python/guards/keys.h"

#include <algorithm>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/addresses.h"
#include "python/interpreter/watch/containers.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr Py_ssize_t most_asked = 256;  // Keys of a container each of which has to be known.

bool is_by_identity(PyObject* object) {
  return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

}  // namespace

bool Containers::hashes(PyObject* key) {
  const auto raise = [this](Entry entry) {
    activity().entry = std::max(activity().entry, entry);
    return true;
  };
  if (guards::is_scalar(key) || values_.tensors().is_plain(key)) return true;
  if (!values_.is_known(key)) return abandon("a key of unknown origin", key);
  if (values_.tensors().is_tensor(key)) return raise(Entry::tensor);
  if (PyTuple_Check(key) && (PyTuple_CheckExact(key) || acts_as_tuple(values_, key))) {
    if (!values_.open(key)) return abandon("a key that cannot be guarded", key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!hashes(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  if (PyFrozenSet_CheckExact(key) && is_data(key))
    return values_.open(key) || abandon("a key that cannot be guarded", key);
  if (is_derived_scalar(key)) return absorb(values_, key) || abandon("a key that hashes itself", key);
  if (PyWeakref_CheckRefExact(key)) return hashes_referent(key);
  // By their addresses and those of what they are bound to.
  if (PyCFunction_CheckExact(key)) return values_.pin(key) || abandon("a key of unknown origin", key);
  const bool has_code = watch_.classes.special_function(key, "__hash__");
  if (guards::is_plain_key(key) && watch_.classes.keep_special(key, {"__hash__", "__eq__"}))
    return values_.pin(key) && (!has_code || raise(Entry::known));
  const bool in_python =
      has_code && (watch_.classes.special_function(key, "__eq__") || (is_by_identity(key) && values_.pin(key)));
  return (!abandoned() && in_python && watch_.classes.keep_special(key, {"__eq__"}) && raise(Entry::known)) ||
         abandon("a key that is no scalar", key);
}

/// A weak reference hashes as what it refers to, and two are equal if that is.
bool Containers::hashes_referent(PyObject* reference) {
  PyObject* referent = PyWeakref_GET_OBJECT(reference);
  if (referent == Py_None || !watch_.library.call_weak_reference(reference))
    return abandon("a weak reference of unknown origin", reference);
  return hashes(referent);
}

bool Containers::hash_of(PyObject* object) {
  return (has_lasting_hash(object) && hashes(object) && allow(std::max(activity().entry, Entry::known))) ||
         abandon("the address of an object that is another one in every run", object);
}

/// It is no address of an object that the run has made.
bool Containers::has_lasting_hash(PyObject* object) {
  if (guards::is_scalar(object) || values_.tensors().is_plain(object)) return true;
  if (values_.tensors().is_tensor(object) || PyWeakref_Check(object)) return false;
  if (!PyTuple_Check(object))
    return values_.source_of(object) || Py_TYPE(object)->tp_hash != PyBaseObject_Type.tp_hash;
  PyObject** const items = PySequence_Fast_ITEMS(object);
  return std::all_of(items, items + PyTuple_GET_SIZE(object),
                     [this](PyObject* item) { return has_lasting_hash(item); });
}

bool Containers::look_up(PyObject* dict, PyObject* key) {
  if (!hashes(key)) return false;
  if (values_.is_made(dict) ? !keys_fit(values_, dict, key) : holds_address(values_, key))
    return abandon(Break::address_of_object);
  if (values_.is_made(dict) || values_.look_up(dict, key) || (!abandoned() && asks_keys(dict, key))) return true;
  return abandon("an entry of a dict that cannot be guarded", key);
}

bool Containers::look_up_plain(PyObject* dict, PyObject* key) {
  return (hashes(key) && values_.look_up(dict, key)) || abandon("an entry of a dict that cannot be guarded", key);
}

/// Whether the dict has an entry is known without Python code. False, and abandoned, if it is not.
bool Containers::has_plain_entry(PyObject* dict, PyObject* key) {
  if (!guards::can_look_up(dict, key)) return abandon("an entry of a dict that cannot be guarded", key);
  return guards::entry_of_key(dict, key) != nullptr;
}

/// The keys of an older dict say in Python which of them is asked for.
bool Containers::asks_keys(PyObject* dict, PyObject* key) {
  if (!values_.source_of(dict) || !is_exact_dict(dict) || values_.effects().changed(dict)) return false;
  if (PyDict_GET_SIZE(dict) > most_asked || !values_.open(dict)) return false;
  return guards::for_each_key(dict, [&](PyObject* own) { return hashes(own) && tell_apart(own, key); });
}

/// Two objects that are one are equal, whatever their class says.
bool Containers::tell_apart(PyObject* own, PyObject* asked) {
  if (PyTuple_Check(own) && PyTuple_Check(asked)) {
    const Py_ssize_t count = std::min(PyTuple_GET_SIZE(own), PyTuple_GET_SIZE(asked));
    for (Py_ssize_t i = 0; i < count; ++i) tell_apart(PyTuple_GET_ITEM(own, i), PyTuple_GET_ITEM(asked, i));
  }
  if (guards::is_scalar(own) || guards::is_scalar(asked)) return true;
  values_.tell_apart(own);
  values_.tell_apart(asked);
  return true;
}

/// `in` a list or tuple, whose items are compared one after the other, or in a set of objects. False, and no
/// abandonment, where C code compares plain data alone.
bool Containers::asks_items(PyObject* container, PyObject* item) {
  const bool is_sequence = PyList_CheckExact(container) || PyTuple_CheckExact(container);
  if (!is_sequence && !PyAnySet_CheckExact(container)) return false;
  const auto is_object = [this](PyObject* one) {
    return !guards::is_scalar(one) && !values_.tensors().is_plain(one) && !values_.tensors().is_tensor(one) &&
           !is_builtin_container(one) && !is_derived_scalar(one) &&
           (Py_TYPE(one)->tp_flags & Py_TPFLAGS_HEAPTYPE || PyWeakref_CheckRefExact(one) || PyFunction_Check(one) ||
            PyCFunction_CheckExact(one) || PyType_Check(one));
  };
  if (!values_.is_known(item)) return false;
  if (!is_sequence) return is_object(item) && asks_members(container, item);
  PyObject** const items = PySequence_Fast_ITEMS(container);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(container);
  if (count > most_asked || std::any_of(items, items + count, [&](PyObject* one) {
        return values_.tensors().is_tensor(one) || is_builtin_container(one);
      }))
    return false;
  if (!is_object(item) && !is_by_identity(item)) return false;
  if (!values_.open(container)) return false;
  Entry entry = Entry::none;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!watch_.operators.comparison(items[i], item, Py_EQ)) return false;
    entry = std::max(entry, activity().entry);
  }
  return allow(entry);
}

/// Likewise, in a set that existed before and that the run has not changed.
bool Containers::asks_members(PyObject* set, PyObject* item) {
  if (!values_.source_of(set) || values_.effects().changed(set)) return false;
  if (PySet_GET_SIZE(set) > most_asked || !values_.open(set) || !hashes(item)) return false;
  PyObject* own = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &own, &hash);) {
    const bool is_known =
        values_.is_known(own) || values_.learn(own, values_.sources().object(own, "an item of a set"));
    if (!is_known || !hashes(own) || !tell_apart(own, item)) return false;
  }
  return true;
}

}  // namespace braze::interpreter
