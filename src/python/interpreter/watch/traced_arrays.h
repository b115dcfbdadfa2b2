// python/interpreter/watch/traced_arrays.h: arrays of NumPy's that the run computes of tensors.
//
// In a run such an array is an object of a class of braze's own (python/braze/_arrays.py), written in Python and
// watched as what users write, around a tensor of the same memory. It leaves the run as that tensor's numpy().
// Nothing may tell it from the array that it stands for: its class is answered for, C code is not given it.
#pragma once

#include <optional>
#include <unordered_map>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

struct Activation;

/// An array, or a number of NumPy's, that the run computes.
bool is_traced_array(PyObject* value) noexcept;
/// Those are of this class, numbers of the other one that derives from it. Once, when braze is imported.
/// \param given  likewise, of numbers of NumPy's that vary from call to call.
void set_traced_arrays(PyTypeObject* arrays, PyTypeObject* numbers, PyTypeObject* given);
/// It is a number, and no array.
bool is_traced_number(PyObject* value) noexcept;
/// It is made of a number of Python's that varies, rather than of a tensor: that one. Null for all else.
Ref number_behind(PyObject* value);

/// Of a method of that class: what calls the array's own of that name, borrowed. Null for all else.
PyObject* method_of_numpy(PyObject* function) noexcept;

class TracedArrays final : Domain {
 public:
  using Domain::Domain;

  /// NumPy is given such, or a tensor, in lists or not.
  bool are_among(PyObject* const* arguments, Py_ssize_t count, int depth = 0) const;
  /// A function of NumPy's with such arguments: what computes it of tensors is called in its place.
  bool call(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  /// `tensor.numpy()`, likewise.
  bool call_numpy(PyObject* tensor, PyObject* const* arguments, Py_ssize_t count);
  /// One of two operands is such, and the other one leaves the operator to it.
  bool decides(PyObject* left, PyObject* right, bool in_place);
  /// `tensor[number]`, where the run computes the number, and `array[size]`, where the size varies: gives what can
  /// do it in their place.
  void put_operands(PyObject*& container, PyObject*& key);
  /// An instruction is about to look into arrays that a call or frame is given, which no guard holds to their
  /// contents: what stands for them, over tensors that are arguments of the graph, takes their place on the stack.
  /// So does what stands for a number that varies.
  void put_given(Activation& a, int opcode, int arg);
  /// isinstance(): what the array would answer. Nothing: that cannot be told.
  std::optional<bool> is_instance(PyObject* array, PyObject* classes) const;
  /// type(array), borrowed.
  PyObject* class_of(PyObject* array) const;

 private:
  bool keep_errors();
  void put(PyObject*& operand, bool is_written = false);
  void put_number(PyObject*& operand);
  Ref plain_of(PyObject* operand);
  void put_computed(PyObject*& operand, PyObject* value);
  void put_plain(PyObject*& operand);
  void put_beside_tensor(PyObject*& left, PyObject*& right, int opcode, int arg);
  void put_sliced(Activation& a, int depth, bool is_stored);
  void put_in_call(Activation& a, PyObject* callable, int count);

  std::unordered_map<PyObject*, Ref> given_;  ///< What stands for an older array or number. Null: nothing can.
};

}  // namespace braze::interpreter
