// capture/backward_formulas.h: backwards of PyTorch's that decide by values, in a form that does not.
//
// Where the largest element is, how many there are, whether a factor is zero: PyTorch's formulas read a tensor for
// that, unless it is of a subclass. Here both outcomes are computed and selected from.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>

namespace braze::capture {

/// What the node would give; nothing if PyTorch's own formula does not look at values. `inputs` stay.
std::optional<torch::autograd::variable_list> backward_without_values(torch::autograd::Node& node,
                                                                      const torch::autograd::variable_list& inputs);

}  // namespace braze::capture
