// loops/memory.h: where temporaries lie in a program's arena.
#pragma once

#include "loops/plan.h"

namespace braze::loops {

/// Gives every temporary buffer an offset so that buffers alive at the same step do not overlap. Greedy by size,
/// best fit (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Offsets and
/// arena_bytes are multiples of 64. Temporaries of a device lie side by side: what lies between the first and the
/// end of the last one is no other device's. What is part of a temporary becomes a temporary that lies in it.
void plan_memory(Plan& plan, bool reuse);

}  // namespace braze::loops
