// python/guards/keys.h: keys of dicts that are looked up without Python code.
//
// Plain keys (source.h), and tensors: torch.Tensor.__hash__ is Python code, but gives the address. The state of an
// optimizer is a dict by tensor.
#pragma once

#include <Python.h>

namespace braze::guards {

/// A tensor that is hashed by torch.Tensor.__hash__.
bool is_tensor_key(PyObject* value) noexcept;
/// The hash of a plain key or of a tensor key.
Py_hash_t hash_of_key(PyObject* key) noexcept;
/// The dict may be asked for this key: among tensors a tensor, among plain keys a plain one. Linear but for
/// strings.
bool can_look_up(PyObject* dict, PyObject* key) noexcept;

}  // namespace braze::guards
