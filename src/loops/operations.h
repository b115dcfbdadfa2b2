// loops/operations.h: how much is computed: floating operations by PyTorch's way of counting
// (torch.utils.flop_counter): a multiplication and an addition of a product are two.
#pragma once

#include <cstdint>
#include <span>

#include "loops/kernel.h"
#include "loops/plan.h"

namespace braze::loops {

/// Of one launch: one for each floating result of an elementwise operator, an exponential too, and one for each
/// value that a reduction takes in. Casts, comparisons and choices are none. Both sides of a branch count.
/// \param symbols  values of the kernel's symbols.
int64_t floating_operations(const Kernel& kernel, std::span<const int64_t> symbols);

/// Of a step; 0 for library calls other than products, convolutions and attention.
int64_t floating_operations(const Plan& plan, const Step& step);

}  // namespace braze::loops
