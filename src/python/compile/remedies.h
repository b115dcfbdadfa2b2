// python/compile/remedies.h: what a user can do about a graph break.
#pragma once

#include <string_view>

namespace braze::python {

/// What to change so that the graph does not end for this reason: one sentence, for errors and reports.
///   remedy_for("a branch on the value of a tensor: Tensor")
///     "Use torch.where, or compute the condition outside of the compiled function."
std::string_view remedy_for(std::string_view reason);

}  // namespace braze::python
