// passes/causal_masks.h: truth values that say no more than where they lie.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

/// Of a mask [..., L, S]: element (i, j) is `j <= i`, whatever the other indices are. Follows comparisons of
/// numbers that are sums of indices (passes/affine.h), and what is known to be true throughout (passes/bounds.h)
/// into `and`.
///   %0 = iota : i64[5]
///   %1 = reshape %0 : i64[5,1]
///   %2 = ge %1, %0 : bool[5,5]             ; causal
bool is_causal(const ir::Value* mask);

}  // namespace braze::passes
