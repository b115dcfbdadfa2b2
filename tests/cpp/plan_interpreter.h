// tests/cpp/plan_interpreter.h: runs plans over memory of its own, kernels by walking them (interpret.h): the
// oracle of lowering, and of plans that were read from text or bytes.
#pragma once

#include <vector>

#include "graph_interpreter.h"
#include "loops/plan.h"

namespace braze::test {

/// The elements of the plan's results, then of what its mutated inputs hold afterwards, in order.
/// \param inputs  The elements of each graph input.
/// \throws InternalError on an access outside of memory, and on library calls other than matrix products.
std::vector<Elements> run(const loops::Plan& plan, const std::vector<Elements>& inputs);

}  // namespace braze::test
