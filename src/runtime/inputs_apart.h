// runtime/inputs_apart.h: which inputs of a graph share memory with no other.
#pragma once

#include <vector>

#include "capture/trace.h"

namespace braze::runtime {

/// Of each graph input, that the example overlaps no other one; false for those that there is no example of.
/// \param arguments  one a graph argument, in order; may be fewer.
std::vector<bool> inputs_apart(const capture::Trace& trace, const std::vector<at::Tensor>& arguments);

}  // namespace braze::runtime
