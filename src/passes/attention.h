// passes/attention.h: hand-written attention becomes one sdpa.
//
// Why: written out, attention computes and stores all L x S scores, several times over; the library's kernel keeps
// a tile of them in cache.
//   before, with the reshapes to 3-D that PyTorch's matmul makes        after
//   %2 = bmm %q3, %kt3 : f32[24,5,5]                                    %0 = sdpa %q, %k, %v, scale=0.125
//   %3 = reshape %2 : f32[2,12,5,5]                                            : f32[2,12,5,64]
//   %4 = scalar value=8.0 : f32[]
//   %5 = div %3, %4 : f32[2,12,5,5]
//   %6 = softmax %5, dim=3 : f32[2,12,5,5]
//   %7 = reshape %6 : f32[24,5,5]
//   %8 = bmm %7, %v3 : f32[24,5,64]
//   %9 = reshape %8 : f32[2,12,5,64]
// Also with `+ mask` before the softmax, and with mul in place of div.
// Needs: canonical views. Leaves alone: scores or probabilities that are used elsewhere; dtypes other than f32 and
// f64 (rounding the scores to bf16 is what eager does); masks that might be -inf all along a row (softmax gives NaN
// there, the library 0), that is all that passes/bounds.h does not know to be finite; devices other than the CPU;
// strides of q that do not tell those of the result.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void attention(ir::Graph& graph);

}  // namespace braze::passes
