// passes/decompose.h: open composites into elementwise ops and reductions.
//
// Why: until here softmax or layer_norm is one node, which patterns find easily; lowering fuses its parts with what
// stands around it.
//   before                              after
//   %0 = softmax %x, dim=1 : f32[4,8]   %0 = amax %x, dims=[1] keepdim=true : f32[4,1]
//   return %0                           %1 = sub %x, %0 : f32[4,8]
//                                       %2 = exp %1 : f32[4,8]
//                                       %3 = sum %2, dims=[1] keepdim=true : f32[4,1]
//                                       %4 = div %2, %3 : f32[4,8]
//                                       return %4
// The formulas are those of eager's CPU kernels, but softmax divides once a row, and log(softmax(x)) is
// log_softmax(x) and -inf where the softmax is 0; both are at least as near to the true value. bf16 and f16 are
// converted once, computed in f32 and converted back. Reductions keep their dims with size 1, so that mean and var
// of one value share their sum.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void decompose(ir::Graph& graph);

}  // namespace braze::passes
