// python/compile/overlap.h: tensors over one memory.
#pragma once

#include <Python.h>

namespace braze::python {

/// Two tensors may have an element in common. Parts of a memory that have none may both be longer at another call:
/// where a run writes to the memory, guards say how far they are apart.
bool may_overlap(PyObject* one, PyObject* other);

}  // namespace braze::python
