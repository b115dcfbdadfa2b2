// passes/dead_code.h: take out nodes that nothing needs.
//
// Why: other passes leave behind what they replaced, and tracing records results that the program never uses.
//   before                          after
//   %0 = exp %x : f32[4]            %0 = neg %x : f32[4]
//   %1 = neg %x : f32[4]            return %0
//   return %1
// Leaves alone: nodes with an effect and what they need; inputs, which are the program's signature.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void dead_code(ir::Graph& graph);

}  // namespace braze::passes
