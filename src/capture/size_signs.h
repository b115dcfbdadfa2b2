// capture/size_signs.h: no size of a graph is negative.
#pragma once

#include "capture/dim.h"
#include "ir/graph.h"

namespace braze::capture {

/// Rules know that their results' sizes are not negative, and the graph is to prove it. Where it cannot, as of
/// `n*m - n*(m mod 4)` after some more steps, a guard says so.
void guard_signs(const ir::Graph& graph, ir::ShapeEnv& env);

}  // namespace braze::capture
