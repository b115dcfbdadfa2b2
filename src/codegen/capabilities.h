// codegen/capabilities.h: what a target's code generator does not know. Capture asks, and leaves such operators to
// ATen.
#pragma once

#include "ir/graph.h"
#include "target/target.h"

namespace braze::codegen {

/// Kernels for the target may compute `op` in `type` (a compute type). A CPU's call libm where they know no better;
/// a GPU has none.
bool can_compute(const Target& target, ir::Op op, ir::DType type);

}  // namespace braze::codegen
