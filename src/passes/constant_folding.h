// passes/constant_folding.h: compute now what depends on numbers alone.
//
// Why: masks and scales are built from Python numbers by several ops; folded, they become a kernel parameter, and
// rules of simplify see through them.
//   before                              after
//   %0 = scalar value=1.0 : f32[]       %2 = scalar value=-2.0 : f32[]
//   %1 = expand %0 : f32[4,8]           %3 = expand %2 : f32[4,8]
//   %2 = scalar value=3.0 : f32[]       return %3
//   %3 = sub %1, %2 : f32[4,8]
//   return %3
// Exact to the bit: f32 is rounded after every op, integers wrap; ops that are not exactly rounded (exp) stay.
// Leaves alone: bf16 and f16, integer division by zero, conversions out of range.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void constant_folding(ir::Graph& graph);

}  // namespace braze::passes
