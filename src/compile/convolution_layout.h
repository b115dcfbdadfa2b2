// compile/convolution_layout.h: the layouts in which a program's convolutions may be computed.
//
// oneDNN computes on channels_last memory as it lies; row-major operands are rearranged inside of every call, and
// so is the result. Eager's convolution takes the layout of its operands, and what kernels compute in between can
// be stored as one likes. On two cores of a Zen 5, eager's ResNet-50 takes 175 ms row-major and 147 in
// channels_last, MobileNetV2 200 and 110.
#pragma once

#include <cstdint>

#include "loops/layout.h"

namespace braze::driver {

enum class ConvolutionLayout : uint8_t {
  traced,         ///< Eager's.
  channels_last,  ///< The channels innermost, of images and volumes.
};

/// The convolutions of `graph` with images or volumes of f32, bf16 or f16 on the CPU, each with what it is to ask
/// in channels_last. Empty if all lie like that already, or there are none.
loops::LayoutOverrides channels_last_convolutions(const ir::Graph& graph);

/// Whether these convolutions move less memory in channels_last: every operand and result that oneDNN need not
/// rearrange counts for it; inputs and outputs of the program that are copied instead, and images of few channels,
/// count against it.
bool channels_last_pays(const ir::Graph& graph, const loops::LayoutOverrides& convolutions);

}  // namespace braze::driver
