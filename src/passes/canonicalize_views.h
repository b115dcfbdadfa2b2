// passes/canonicalize_views.h: one view where several in a row stood, none where nothing changes.
//
// Why: attention reshapes, permutes and expands between every two library calls; matching and fusion look through
// one view more easily than through five.
//   before                                        after
//   %0 = permute %x, dims=[1,0] : f32[8,4]{1,8}   %0 = relu %x : f32[4,8]
//   %1 = permute %0, dims=[1,0] : f32[4,8]        return %0
//   %2 = relu %1 : f32[4,8]
//   return %2
// Needs: nothing. Types never change, so a view that restates the strides of its operand (what contiguous() does)
// stays, and so do the strides of returned values.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void canonicalize_views(ir::Graph& graph);

}  // namespace braze::passes
