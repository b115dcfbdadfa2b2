// loops/cost.h: what an op costs, for deciding what to recompute and how often to copy a loop's body.
#pragma once

#include "ir/graph.h"

namespace braze::loops {

/// Roughly how many instructions one vector takes: 1, or more for the polynomials of codegen/math.h, for calls of
/// libm lane by lane and for divisions of integers.
int vector_instructions(ir::Op op);

/// Its recomputation costs less than a load from memory: elementwise, and neither a division by an integer nor a
/// function evaluated by a polynomial.
bool is_cheap(ir::Op op);

}  // namespace braze::loops
