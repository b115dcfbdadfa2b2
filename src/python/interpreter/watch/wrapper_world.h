// python/interpreter/watch/wrapper_world.h: tensors that hold others, and whose operators their class carries out
// in Python (`__torch_dispatch__`): quantized weights, masked tensors.
//
// A wrapper is an object like others: what it holds is read by its source, or was put there by the run. An operator
// on it enters the class's code below autograd, which is watched, and what that does with the tensors within is
// recorded. So no operator on a wrapper is one of the graph.
#pragma once

#include <Python.h>

namespace braze::interpreter {

class WrapperWorld {
 public:
  virtual ~WrapperWorld() = default;
  /// Instances of the class may be wrappers; guards say that they go on being that.
  virtual bool keep_class(PyTypeObject* type) = 0;
  /// A tensor without memory, with sizes of its own.
  virtual bool is_wrapper(PyObject* object) const = 0;
  /// An attribute that is one of its form, which guards cover, or an operator.
  virtual bool may_read(PyObject* name) const = 0;
  /// torch.Tensor._make_wrapper_subclass.
  virtual bool makes_wrapper(PyObject* function) const = 0;
  /// An operator, as classes are given it.
  virtual bool is_overload(PyObject* object) const = 0;
  /// The class's code is about to run: what it calls is seen as elsewhere.
  virtual void enter_handler() = 0;
  /// Operators are given tracers for tensors that existed before: the one that this stands for, borrowed. Null: it
  /// stands for none.
  virtual PyObject* behind(PyObject* tracer) const = 0;
};

}  // namespace braze::interpreter
