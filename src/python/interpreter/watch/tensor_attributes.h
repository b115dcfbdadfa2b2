// python/interpreter/watch/tensor_attributes.h: attributes and methods of tensors.
#pragma once

#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Attributes and methods of tensors.
class TensorAttributes final : Domain {
 public:
  using Domain::Domain;

  /// Methods and properties of torch's, written in C or in Python, must stay what they are: in the class, which
  /// anyone may patch, and on the object, whose own attributes come before methods.
  bool tensor_attribute(PyObject* tensor, PyObject* name);
  /// A method of torch.Tensor written in Python, which C code enters. What decorators have wrapped has another name
  /// than the class knows it by: `x ** 2` enters the function `pow`.
  bool learn_tensor_method(PyObject* function);
  /// Tensor.__hash__, entered from C code that looks a tensor up: it goes by the address, and shows it to nobody.
  bool hashes_tensor(PyObject* function);

  /// torch.Tensor.__torch_function__, entered from an operator that is given an instance of a derived class: it
  /// calls the operator, and gives results the class.
  bool gives_class(Frame* frame);

  /// `tensor.data = value`, given the slots of the stack where both lie.
  bool store_data(PyObject*& tensor, PyObject* name, PyObject*& value);
  /// `tensor.name = value` of a name that torch.Tensor does not have. Without a value it is deleted.
  bool store_own(PyObject* tensor, PyObject* name, PyObject* value);

  /// An operator, or what reads an attribute that is known of a tensor.
  bool is_operator_in_c(PyObject* function) const;
  /// `torch.Tensor.shape.__get__(tensor)`, which a handler of torch functions is given to call. False: it is none.
  bool reads_by_descriptor(PyObject* descriptor, PyObject* const* arguments, Py_ssize_t count);

 private:
  bool has_results_of_its_class(PyTypeObject* type) const;
  bool own_attribute(PyObject* tensor, PyObject* name);
  PyObject* own_dict(PyObject* tensor);
  bool gradient(PyObject* tensor);
};

}  // namespace braze::interpreter
