// python/interpreter/watch/arrays.h: NumPy's functions and arrays, on what does not depend on tensors.
//
// They compute on data that guards pin down, or that the run has made of such, really and once: what they give is a
// constant of the graph, or is made anew by a replay (array_memory.h).
#pragma once

#include <string_view>
#include <unordered_map>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

class Arrays final : Domain {
 public:
  using Domain::Domain;

  /// A function of NumPy's, written in C or in Python.
  static bool is_function(PyObject* callable);
  /// A number of NumPy's, or an array of such, or what says which kind of number that is.
  static bool is_object(PyObject* value);

  bool call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  bool call_method(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool attribute(PyObject* object, PyObject* name);
  bool binary(PyObject* left, PyObject* right, int operation);
  bool subscript(PyObject* array, PyObject* key);
  bool store_item(PyObject* array, PyObject* key, PyObject* value);
  bool iterate(PyObject* array);
  /// Before an iterator of this run goes on that may go through an array.
  bool ask_next(PyObject* iterator);
  /// torch.from_numpy(), torch.as_tensor() and torch.asarray() of an array: a tensor that natively shares its
  /// memory.
  bool is_shared_by(PyObject* function, PyObject* const* arguments, Py_ssize_t count) const;
  bool share(PyObject* array);
  /// An array that existed before, and that no guard could be about the contents of.
  /// \param is_written  nor should one be: the run is about to change them.
  bool is_given(PyObject* array, bool is_written = false);
  /// That tensor, of an array that existed before: an argument of the graph. Null, if the run goes on, for others.
  PyObject* tensor_over(PyObject* array);
  /// Likewise, for what reads the array again and again. Null: there is none.
  PyObject* tensor_of_given(PyObject* array);

 private:
  bool learn_tensor(PyObject* array, PyObject* tensor);
  bool is_data(PyObject* value, int depth = 0) const;
  bool are_data(PyObject* const* arguments, Py_ssize_t count);
  bool compute(PyObject* const* arguments, Py_ssize_t count, bool in_python);

  std::unordered_map<PyObject*, guards::Ref> over_;  ///< The tensors over older arrays.
};

}  // namespace braze::interpreter
