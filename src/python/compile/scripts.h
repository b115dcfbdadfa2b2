// python/compile/scripts.h: functions of TorchScript.
#pragma once

#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

/// Made by torch.jit.script or torch.jit.trace.
bool is_script(PyObject* object) noexcept;
/// One that computes on its arguments alone, by operators.
bool is_plain_script(PyObject* script);
/// What captures call in its place where gradients are wanted (python/braze/_functions.py); nothing for a twin.
interpreter::TensorWorld::PythonGradient script_gradient_of(PyObject* script);

}  // namespace braze::python
