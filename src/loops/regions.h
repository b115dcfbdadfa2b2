// loops/regions.h: which kernels of a plan run in one parallel region.
//
// Why: a region costs a fork and a join of all threads, microseconds each, as much as a small kernel takes.
// Successive kernels share one; where one needs what an earlier one computes, all wait at a barrier. Kernels that
// need nothing of each other run at the same time, so that many that are too small to be split use several threads
// together.
//   before                     after
//   launch @exp(#0, #2)        region {
//   launch @tanh(#1, #3)         launch @exp(#0, #2)
//   launch @sum(#2, #4)          launch @tanh(#1, #3)
//                                barrier
//                                launch @sum(#2, #4)
//                              }
// A region ends before a library call, and behind a kernel that checks indices: an index out of range must be
// reported before a later kernel writes into an input.
#pragma once

#include "loops/plan.h"

namespace braze::loops {

/// Sets Step::join of every step. Needs: planned memory, because temporaries that share bytes of the arena depend
/// on each other.
/// \param cats  By step: the cat of which it copies an operand, each to a place of its own in the result, by
/// number; 0: none.
void form_regions(Plan& plan, std::span<const uint32_t> cats);

}  // namespace braze::loops
