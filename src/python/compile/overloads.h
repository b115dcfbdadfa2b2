// python/compile/overloads.h: which overload of an operator of torch.ops a call means.
#pragma once

#include <Python.h>

#include "python/guards/ref.h"

namespace braze::python {

/// The overload that a packet (torch.ops.aten.scatter) picks for these arguments, those by name last: an attribute
/// of the packet. Null without an error: there is but one, or none fits, about which the packet's own call says
/// more. A packet that is called tries one overload after the other and makes texts of the arguments that do not
/// fit, which would read the data of tensors that a run has not computed yet.
guards::Ref overload_for(PyObject* packet, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

}  // namespace braze::python
