// passes/cast_chains.h: drop conversions that change nothing.
//
// Why: mixed precision converts back and forth, and each conversion costs instructions in a kernel.
//   before                          after
//   %0 = cast %x : f32[4]           %0 = neg %x : bf16[4]
//   %1 = cast %0 : bf16[4]          return %0
//   %2 = neg %1 : bf16[4]
//   return %2
// with %x bf16. The first conversion must be exact: every value of its operand's dtype is a value of its result's.
// Leaves alone: a first conversion that narrows (f32 -> bf16 -> f32 rounds), and signed integers that reach a
// narrower or unsigned integer through a floating dtype, which wrap one way and are undefined the other.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void cast_chains(ir::Graph& graph);

}  // namespace braze::passes
