// loops/memory.h: where temporaries lie in a program's arena.
#pragma once

#include "loops/plan.h"

namespace braze::loops {

/// Gives every temporary buffer an offset so that buffers alive at the same step do not overlap. Greedy by size,
/// best fit (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Offsets and
/// arena_bytes are multiples of 64. Temporaries of a device lie side by side: what lies between the first and the
/// end of the last one is no other device's. What is part of a temporary becomes a temporary that lies in it.
/// Those that stand_alone() lie behind the others of their device.
void plan_memory(Plan& plan, bool reuse);

/// By buffer: large temporaries. Who runs the plan may give each memory
/// of its own from the step that first writes it to the one that reads it last, which is then free for results: an
/// arena has its full size during the whole call.
std::vector<bool> stand_alone(const Plan& plan);

}  // namespace braze::loops
