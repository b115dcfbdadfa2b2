// passes/simplify.h: algebra that is exact.
//
// Why: Python code writes `x * 1.0`, `x ** 2`, `-(-x)`, and capture's rules for composed operators do so too.
//   before                              after
//   %0 = scalar value=2.0 : f32[]       %0 = mul %x, %x : f32[4]
//   %1 = pow %x, %0 : f32[4]            %1 = neg %0 : f32[4]
//   %2 = scalar value=-1.0 : f32[]      return %1
//   %3 = mul %1, %2 : f32[4]
//   return %3
// Exact for every float, -0.0, inf, NaN and denormals included (which NaN does not count); each rule of the table
// says why. So `x + 0.0` stays (it turns -0.0 into 0.0), and so does `x * 0.0`.
// Leaves alone: what would change a type, as when an operand broadcasts.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void simplify(ir::Graph& graph);

}  // namespace braze::passes
