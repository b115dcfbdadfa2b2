// python/guards/array.h: arrays of NumPy's that hold numbers: what they are, and what is in them.
//
// NumPy is not asked, and need not be there: its objects are laid out as its C API promises, in 1.x and 2.x alike.
#pragma once

#include <Python.h>

#include <span>

namespace braze::guards {

/// Exactly numpy.ndarray, of booleans, integers, floats or complex numbers in the machine's order of bytes.
bool is_number_array(PyObject* value) noexcept;
/// A numpy.dtype of such numbers. Never changes, and there is one of each.
bool is_array_dtype(PyObject* value) noexcept;

/// Of a number array. Valid as long as that lives and is not resized.
struct ArrayParts {
  char* data;
  std::span<const Py_ssize_t> sizes, strides;  ///< Strides in bytes.
  PyObject* base;                              ///< What keeps the memory, unless it is the array's own; or null.
  PyObject* dtype;
  int flags;
  Py_ssize_t item_bytes;

  bool is_contiguous() const noexcept { return flags & 0x1; }
  bool owns_memory() const noexcept { return flags & 0x4; }
  bool is_writeable() const noexcept { return flags & 0x400; }
  /// Of all items together.
  Py_ssize_t bytes() const noexcept;
};
ArrayParts parts_of_array(PyObject* array) noexcept;
/// Of its form and items.
size_t hash_of_array(PyObject* array) noexcept;

}  // namespace braze::guards
