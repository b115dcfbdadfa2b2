// python/compile/tape_builder.h: a tape for compilers written in Python.
#pragma once

#include <pybind11/pybind11.h>

#include "capture/tape.h"

namespace braze::python {

namespace py = pybind11;

/// Tells `builder` the tape, in order, by calls of its methods. What they return stands for a tensor from then on:
///   argument(name, example)              an argument and its tensor of this call
///   bound(name, tensor)                  a parameter, buffer or constant: the tensor itself
///   call(name, overload, args, kwargs, source)  name is "aten::add", overload "Tensor" or ""; returns the result
///   item(result, index)                  an element of a result that is a tuple or list
///   finish(outputs)                      returns the callable that runs the segment
/// \returns what finish() returned. Throws what the methods raise.
py::object build_from_tape(const capture::Tape& tape, const std::vector<at::Tensor>& examples, py::handle builder);

}  // namespace braze::python
