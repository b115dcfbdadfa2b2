// loops/cost.h: what an op costs, for deciding what to recompute and how often to copy a loop's body.
#pragma once

#include "ir/graph.h"

namespace braze::loops {

/// Roughly how many instructions one vector takes.
inline int vector_instructions(ir::Op op) {
  return ir::info(op).vector_instructions;
}

/// Its recomputation costs less than a load from memory: elementwise, and neither a division by an integer nor a
/// function evaluated by a polynomial.
bool is_cheap(ir::Op op);

}  // namespace braze::loops
