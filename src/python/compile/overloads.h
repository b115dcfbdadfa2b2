// python/compile/overloads.h: which overload of an operator of torch.ops a call means.
#pragma once

#include <Python.h>

#include "python/guards/ref.h"

namespace braze::python {

/// What is called in the place of an operator of torch.ops for these arguments, those by name last. Null without an
/// error: the operator itself.
///
/// Of a packet (torch.ops.aten.scatter) it is the overload that it picks. A packet that is called tries one
/// overload after the other and makes texts of the arguments that do not fit, which would read the data of tensors
/// that a run has not computed yet. Of what changes only how a tensor looks at its memory
/// (torch.ops.aten.unsqueeze_) it is the method of tensors.
guards::Ref called_instead(PyObject* object, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

}  // namespace braze::python
