// capture/linear_calls.h: which calls are linear in some of their tensors.
//
// The backward of autograd's own nodes is: gradients that come one after the other add up to what their sum would
// give. Code of the user's need not be (it may clip), and then it matters how often it runs.
#pragma once

#include <vector>

#include "capture/tape.h"

namespace braze::capture {

/// Of the operators that backwards are made of; others are taken for what is not linear.
/// \param depends  by slot of the call: the tensor is linear in what the question is about, or zero.
bool is_linear(const Tape::Call& call, const std::vector<bool>& depends);
/// It gives zeros, whatever it is given.
bool gives_zeros(const Tape::Call& call);

}  // namespace braze::capture
