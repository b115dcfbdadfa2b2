// loops/placement.h: values that are computed straight into the memory of the `cat` that joins them.
//
// Why: joined in a kernel of its own, each operand is written, read and written again.
//   before                        after
//   launch @exp(#0, #1:temp)      launch @exp(#0, #2:part of #1)
//   launch @sin(#0, #2:temp)      launch @sin(#0, #3:part of #1)
//   launch @cat(#1, #3:output)
//   launch @cat(#2, #3:output)
// A value is placed if nothing but one `cat` reads it, itself or through permutations and reshapes; if it lies in
// that `cat` in runs of a cache line or more; and if a kernel computes it, or a library that may write there: a
// matrix product goes only where its memory is packed, because oneDNN writes no other. Leaves: updates (scatter,
// index_put), whose memory starts as a copy; what a library call allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "loops/layout.h"
#include "target/target.h"

namespace braze::loops {

/// Where a value lies in the result of a `cat`, which may itself lie in another.
struct Place {
  const ir::Value* whole = nullptr;  ///< Null: in memory of its own.
  Size offset = 0;                   ///< Elements from the first of `whole`.
};

/// Places by Value::id; empty if nothing is placed. Sets the strides of what is placed in `layouts`.
std::vector<Place> place_in_cats(const ir::Graph& graph, Layouts& layouts, const Targets& targets);

}  // namespace braze::loops
