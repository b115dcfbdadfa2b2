// python/guards/keys.h: keys of dicts that are looked up without Python code.
//
// Plain keys (source.h), and tensors: torch.Tensor.__hash__ is Python code, but gives the address. The state of an
// optimizer is a dict by tensor. Members of enums are plain: enum.Enum.__hash__ is Python code, but gives the hash
// of the member's name.
//
// Keys of any other class hash and compare by Python code. Of these a source reads the entry of one object, by
// identity.
#pragma once

#include <Python.h>

namespace braze::guards {

/// A tensor that is hashed by torch.Tensor.__hash__.
bool is_tensor_key(PyObject* value) noexcept;
/// A member of an enum that is hashed by enum.Enum.__hash__, and equal to itself alone.
bool is_enum_member(PyObject* value) noexcept;
/// The hash of a plain key or of a tensor key.
Py_hash_t hash_of_key(PyObject* key) noexcept;
/// The dict may be asked for this key: among tensors a tensor, among plain keys a plain one. Linear but for
/// strings.
bool can_look_up(PyObject* dict, PyObject* key) noexcept;
/// Whatever the keys are, no two of them hash alike: one that is asked for is compared with one of them at most.
bool has_distinct_hashes(PyObject* dict) noexcept;
/// The entry of a dict with such keys that can_look_up() allows; null if there is none.
PyObject* entry_of_key(PyObject* dict, PyObject* key) noexcept;
/// The entry of a plain key among keys that can_look_up() refuses; null if there is none, or another key has its
/// hash and would be asked in Python. Linear.
PyObject* entry_beside_others(PyObject* dict, PyObject* key, Py_hash_t hash) noexcept;
/// No key has that hash: whatever the keys are, none of them is equal to this one. Linear.
bool is_missing(PyObject* dict, PyObject* key, Py_hash_t hash) noexcept;
/// The entry whose key is this very object; null if there is none. Linear.
PyObject* entry_of_object(PyObject* dict, PyObject* key) noexcept;
/// Sets or, with a null value, removes an entry of an exact dict, by a plain key. \returns -1 with a Python error.
int put_entry_of_key(PyObject* dict, PyObject* key, PyObject* value) noexcept;

}  // namespace braze::guards
