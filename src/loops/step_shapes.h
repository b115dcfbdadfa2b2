// loops/step_shapes.h: what a step of a plan reads and writes, as people write it.
#pragma once

#include <string>

#include "loops/plan.h"

namespace braze::loops {

/// "f32[4,8], f32[8,8] -> f32[4,8]": operands and results in the order of the kernel's parameters or the call's
/// operands. Memory that a kernel reads and writes is on both sides; strides that are not contiguous are told.
std::string shapes_of(const Plan& plan, const Step& step);

}  // namespace braze::loops
