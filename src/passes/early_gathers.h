// passes/early_gathers.h: what is gathered from computed values is gathered from what they are computed from.
//
// Why: cross entropy picks one class of each row; all others need not be computed, let alone stored.
//   before                                             after
//   %1 = sub %x, %0 : f32[64,128]                      %1 = gather %x, %i, dim=1 : f32[64,1]
//   %2 = gather %1, %i, dim=1 : f32[64,1]              %2 = sub %1, %0 : f32[64,1]
// with %0 : f32[64,1], the same all along dim 1. The arithmetic of an element is the same as before.
// Needs: no composites; dead_code afterwards, for what nobody asks for any more. Leaves alone: results of more than
// a quarter of the values' number; indices shorter than the values in another dimension; values that are stored for
// somebody else, or are computed from what is not in memory (only arithmetic moves, no reduction or scan).
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void early_gathers(ir::Graph& graph);

}  // namespace braze::passes
