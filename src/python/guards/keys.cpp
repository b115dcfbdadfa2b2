// python/guards/keys.cpp
#include "python/guards/keys.h"

#include <unordered_set>

#include "python/guards/ref.h"
#include "python/guards/scalar.h"
#include "python/guards/source.h"
#include "python/guards/storage_access.h"

namespace braze::guards {

namespace {

/// The class leaves hash and comparison to that builtin one.
bool hashes_as(const PyTypeObject* type, const PyTypeObject* base) noexcept {
  return type->tp_hash == base->tp_hash && type->tp_richcompare == base->tp_richcompare;
}

/// enum.EnumType, and the hash that enum.Enum has in Python. Null before module enum is loaded.
struct EnumFacts {
  PyTypeObject* meta = nullptr;
  PyObject *hash = nullptr, *hash_name = nullptr, *own_name = nullptr;  ///< Kept for good.
};

const EnumFacts& enum_facts() noexcept {
  static EnumFacts facts;
  if (facts.meta) return facts;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "enum");
  PyObject* base =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "Enum") : nullptr;
  if (!base || !PyType_Check(base)) return facts;
  facts.hash_name = PyUnicode_InternFromString("__hash__");
  facts.own_name = PyUnicode_InternFromString("_name_");
  PyObject* hash =
      facts.hash_name ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), facts.hash_name) : nullptr;
  if (!hash || !facts.own_name || !PyFunction_Check(hash)) return facts;
  facts.hash = Py_NewRef(hash);
  facts.meta = reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(base))));
  return facts;
}

/// What enum.Enum.__hash__ hashes, borrowed; null if it is no text.
PyObject* name_of_member(PyObject* member) noexcept {
  PyObject* dict = instance_dict(member);
  PyObject* name =
      dict ? _PyDict_GetItem_KnownHash(dict, enum_facts().own_name, PyObject_Hash(enum_facts().own_name)) : nullptr;
  return name && PyUnicode_CheckExact(name) ? name : nullptr;
}

bool holds_member(PyObject* tuple) noexcept {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (is_enum_member(item) || (PyTuple_Check(item) && holds_member(item))) return true;
  }
  return false;
}

/// A tuple that hashes alike, with names in place of members. Null without memory.
Ref with_names(PyObject* tuple) noexcept {
  Ref named = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; named && i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    Ref stands = PyTuple_Check(item)    ? with_names(item)
                 : is_enum_member(item) ? Ref::borrow(name_of_member(item))
                                        : Ref::borrow(item);
    if (!stands) return {};
    PyTuple_SET_ITEM(named.get(), i, stands.release());
  }
  return named;
}

}  // namespace

bool is_enum_member(PyObject* value) noexcept {
  const PyTypeObject* type = Py_TYPE(value);
  const EnumFacts& facts = enum_facts();
  if (!facts.meta || !PyType_IsSubtype(Py_TYPE(type), facts.meta)) return false;
  return type->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
         _PyType_Lookup(Py_TYPE(value), facts.hash_name) == facts.hash && name_of_member(value);
}

bool is_plain_key(PyObject* key) noexcept {
  if (is_scalar(key)) return !is_nan(key);
  const PyTypeObject* type = Py_TYPE(key);
  // Named tuples, torch.Size, members of IntEnum and the like leave both to the builtin class.
  if (PyTuple_Check(key)) {
    if (!hashes_as(type, &PyTuple_Type)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_plain_key(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  // By the addresses of the C function and of what it is bound to, which lives as long as the function does.
  if (PyCFunction_CheckExact(key)) {
    PyObject* self = PyCFunction_GET_SELF(key);
    return !self || PyModule_Check(self) || PyType_Check(self);
  }
  if (Py_IS_TYPE(key, &_PyMethodWrapper_Type)) {  // Likewise: `torch.Tensor.shape.__get__`, of a class in C.
    const Ref self = Ref::steal(PyObject_GetAttrString(key, "__self__"));
    if (!self) PyErr_Clear();
    return self && Py_IS_TYPE(self.get(), &PyGetSetDescr_Type);
  }
  if (PyLong_Check(key)) return hashes_as(type, &PyLong_Type);
  if (PyUnicode_Check(key)) return hashes_as(type, &PyUnicode_Type);
  return hashes_as(type, &PyBaseObject_Type) || is_enum_member(key);
}

Py_hash_t hash_of_key(PyObject* key) noexcept {
  if (is_scalar(key)) return PyObject_Hash(key);
  if (is_tensor_key(key)) return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(key));
  if (is_enum_member(key)) return PyObject_Hash(name_of_member(key));
  if (!PyTuple_Check(key) || !holds_member(key)) return PyObject_Hash(key);
  const NoCollection no_collection;
  const Ref named = with_names(key);
  return named ? PyObject_Hash(named.get()) : -1;
}

bool can_look_up(PyObject* dict, PyObject* key) noexcept {
  if (PyUnicode_CheckExact(key)) return true;
  if (!is_tensor_key(key)) return is_plain_key(key) && has_plain_keys(dict);
  bool all = true;
  for_each_key(dict,
               [&](PyObject* other) { return all = Py_IS_TYPE(other, Py_TYPE(key)) || is_tensor_key(other); });
  return all;
}

bool has_plain_keys(PyObject* dict) noexcept {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value))
    if (!is_plain_key(key)) return false;
  return true;
}

bool has_distinct_hashes(PyObject* dict) noexcept {
  std::unordered_set<Py_hash_t> hashes;
  Py_ssize_t at = 0;
  Py_hash_t hash;
  PyObject *key, *value;
  while (_PyDict_Next(dict, &at, &key, &value, &hash))
    if (!hashes.insert(hash).second) return false;
  return true;
}

PyObject* entry_of_key(PyObject* dict, PyObject* key) noexcept {
  PyObject* value = _PyDict_GetItem_KnownHash(dict, key, hash_of_key(key));
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* entry_beside_others(PyObject* dict, PyObject* key, Py_hash_t hash) noexcept {
  PyObject* found = nullptr;
  Py_ssize_t at = 0;
  PyObject *other, *value;
  for (Py_hash_t own; _PyDict_Next(dict, &at, &other, &value, &own);) {
    if (own != hash) continue;
    if (!same_constant(key, other)) return nullptr;
    found = value;
  }
  return found;
}

bool is_missing(PyObject* dict, PyObject* key, Py_hash_t hash) noexcept {
  Py_ssize_t at = 0;
  PyObject *other, *value;
  for (Py_hash_t own; _PyDict_Next(dict, &at, &other, &value, &own);)
    if (own == hash) return false;
  return true;
}

PyObject* entry_of_object(PyObject* dict, PyObject* key) noexcept {
  Py_ssize_t at = 0;
  PyObject *other, *value;
  while (PyDict_Next(dict, &at, &other, &value))
    if (other == key) return value;
  return nullptr;
}

int put_entry_of_key(PyObject* dict, PyObject* key, PyObject* value) noexcept {
  const Py_hash_t hash = hash_of_key(key);
  if (hash == -1 && PyErr_Occurred()) return -1;
  return value ? _PyDict_SetItem_KnownHash(dict, key, value, hash) : _PyDict_DelItem_KnownHash(dict, key, hash);
}

}  // namespace braze::guards
