// python/compile/given_tensors.h: whether a frame is worth being run as a chain of segments.
#pragma once

#include "python/interpreter/frame_run.h"

namespace braze::python {

/// Tensors or modules are within reach of its variables and of what its function has closed over: in containers,
/// named tuples, instances. It has not begun. What it reaches over its globals does not count, as that is the same
/// for all functions of a file.
bool is_given_tensors(interpreter::Frame* frame);

}  // namespace braze::python
