// capture/backward_formulas.h: backwards of PyTorch's that cannot be recorded as they are, in another form.
//
// Where the largest element is, how many there are, whether a factor is zero, what a mask selects: PyTorch's
// formulas read a tensor for that, unless it is of a subclass. Here both outcomes are computed and selected from.
// And a kernel of oneDNN's that writes beyond its memory is not called.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>

namespace braze::capture {

/// What the node would give; nothing if PyTorch's own formula will do. `inputs` stay.
std::optional<torch::autograd::variable_list> other_backward(torch::autograd::Node& node,
                                                             const torch::autograd::variable_list& inputs);

}  // namespace braze::capture
