// loops/schedule/gpu/units.h: work that needs nothing of its neighbours, shared out over the grid.
#pragma once

#include <memory>

#include "loops/kernel.h"
#include "target/target.h"

namespace braze::loops {

/// Loops over blocks and threads (or warps), a unit of work each. The body is filled in between open and close.
struct Units {
  std::unique_ptr<Loop> blocks, threads;
  ValueId guard = none;  ///< None: there are as many units as the loops have room for.
  Affine number;         ///< Which unit the body is about.
  Block body;
};
std::unique_ptr<Units> open_units(Kernel& kernel, const GpuLimits& limits, int64_t count, bool warps);
void close_units(Kernel& kernel, Units& units);

}  // namespace braze::loops
