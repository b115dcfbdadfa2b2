// python/guards/scalar.h: exact immutable values of Python, compared bit by bit.
//
// Scalars are None, Ellipsis, NotImplemented, bool, int, float, complex, str and bytes of exactly these types, and
// torch.device (compared by value, because each is a new object). True, 1 and 1.0 differ, 0.0 and -0.0 differ, a
// NaN equals itself; numpy.float64, IntEnum members and other subclasses are no scalars.
#pragma once

#include <Python.h>

#include <string>

#include "python/guards/ref.h"

namespace braze::guards {

bool is_scalar(PyObject* value) noexcept;

/// A number of NumPy: numpy.float64, numpy.int64, numpy.bool_ and their like. C code computes with it; guards
/// compare it as a scalar, and it is none otherwise.
bool is_array_scalar(PyObject* value) noexcept;

/// The float or int of Python's that equals such a number. Null for bools of NumPy's, for those that PyTorch has no
/// type for, and for anything else.
Ref array_number(PyObject* value) noexcept;

/// numpy.ndarray, or a class derived from it.
bool is_array(const PyTypeObject* type) noexcept;

/// A float or complex that is not equal to itself: containers find it by its address alone.
bool is_nan(PyObject* value) noexcept;

/// A scalar of which there is one object: None, True, small integers. Equal others may be several.
bool is_unique(PyObject* value) noexcept;

/// Whether `value` is the scalar or number of NumPy `expected`, in exact type and bits. Runs no Python code,
/// allocates nothing.
bool same_scalar(PyObject* expected, PyObject* value) noexcept;

/// same_scalar(), or both are tuples of scalars that agree, or the same object.
bool same_constant(PyObject* expected, PyObject* value) noexcept;

/// Agrees for values that same_constant() takes for equal.
Py_hash_t constant_hash(PyObject* value) noexcept;

/// For messages: scalars by repr, shortened; anything else by type, "a list", "a Config". Runs no Python code of
/// users. "nothing" for null.
std::string describe(PyObject* value);

}  // namespace braze::guards
