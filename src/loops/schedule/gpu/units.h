// loops/schedule/gpu/units.h: work that needs nothing of its neighbours, shared out over the grid.
#pragma once

#include <memory>

#include "loops/kernel.h"
#include "loops/schedule/extents.h"
#include "target/target.h"

namespace braze::loops {

/// Loops over blocks and threads (or warps), a unit of work each. The body is filled in between open and close.
/// Blocks are of one size, whatever there is to do, where their number is an expression.
struct Units {
  std::unique_ptr<Loop> blocks, threads;
  ValueId guard = none;  ///< None: there are as many units as the loops have room for.
  Affine number;         ///< Which unit the body is about.
  Block body;
};
std::unique_ptr<Units> open_units(Kernel& kernel, Extents& extents, const GpuLimits& limits, Size count,
                                  bool warps);
void close_units(Kernel& kernel, Units& units);

}  // namespace braze::loops
