// capture/wrappers.h: tensors that hold others, and whose operators their class carries out in Python, below
// autograd
// (`__torch_dispatch__`). The tracer sees nothing of such a tensor: what the class's code calls is recorded.
#pragma once

#include <ATen/core/Tensor.h>

namespace braze::capture {

/// It has sizes and strides of its own, which are numbers, and no memory.
bool is_wrapper(const at::Tensor& tensor);
/// Its class carries out operators, whatever else it is.
bool is_dispatched(const at::Tensor& tensor);
/// That code is about to run: the gate, which PyTorch leaves out there, sees what it calls.
void open_gate();
/// Code of such a class runs, and the gate sees what it calls.
bool is_within_handler();
/// The gate has put this tracer in the place of a real tensor. Null: it has not.
const at::Tensor* stood_for(const at::Tensor& tracer);

}  // namespace braze::capture
