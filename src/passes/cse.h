// passes/cse.h: common subexpressions: compute equal values once.
//
// Why: attention masks, positions and scales are built anew in every layer.
//   before                          after
//   %0 = exp %x : f32[4]            %0 = exp %x : f32[4]
//   %1 = exp %x : f32[4]            %1 = add %0, %0 : f32[4]
//   %2 = add %0, %1 : f32[4]        return %1
//   return %2
// Two nodes are equal if op, operands, attributes (numbers to the bit) and result types are; operands of add, mul,
// eq, ne and the bitwise ops may be swapped. maximum and minimum may not: which zero wins depends on the order.
// Leaves alone: nodes with an effect, random numbers among them, on either side of which pure nodes do merge.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void cse(ir::Graph& graph);

}  // namespace braze::passes
