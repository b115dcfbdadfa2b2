// compile/saved_layouts.h: how the forward of a training stores what its backward reads.
//
// Nobody but the backward sees it, so it need not lie as eager's. Where convolutions are computed in channels_last,
// what is saved of their images stays so: it would be in memory in both layouts otherwise, and every convolution of
// the backward would rearrange it. (One step of MobileNetV2, 8 images, two cores of a Zen 5: eager row-major 630
// ms, in channels_last 415.)
#pragma once

#include "passes/partition.h"

namespace braze::driver {

/// Changes the types of saved values in both graphs, where convolutions pay in channels_last in both.
/// \param results  Outputs of the forward graph that are not for the backward: the first ones.
void lay_out_saved(const passes::Partition& parts, size_t results);

}  // namespace braze::driver
