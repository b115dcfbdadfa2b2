// python/compile/tensor_classes.h: classes derived from torch.Tensor whose instances lie as plain tensors do.
//
// Operators give plain tensors for instances of what derives from Parameter. For those of other classes they call
// torch.Tensor.__torch_function__, which gives results the class, or the class's own, which is watched.
#pragma once

#include <Python.h>

#include <span>

namespace braze::python {

/// torch.Tensor, Parameter, or a class that leaves to these what makes operators ask it, but for a handler in
/// Python, and how instances lie.
bool is_plain_tensor_class(PyTypeObject* type);
/// Likewise, but for a `__torch_dispatch__` in Python that carries out operators.
bool is_wrapper_class(PyTypeObject* type);
/// torch.Tensor._make_wrapper_subclass, borrowed.
PyObject* wrapper_maker();
/// Operators on its instances are calls of Python code of its own.
bool has_own_handler(PyTypeObject* type);
/// What such a class leaves to them: names that guards are about.
std::span<PyObject* const> names_of_tensor_classes();
/// `tensor.__class__ = type` can be done to a plain tensor.
bool can_become(PyTypeObject* type);

}  // namespace braze::python
