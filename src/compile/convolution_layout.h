// compile/convolution_layout.h: the layouts in which a program's convolutions may be computed.
//
// oneDNN computes on channels_last memory as it lies; row-major operands are rearranged inside of every call, and
// so is the result. Eager's convolution takes the layout of its operands, and what kernels compute in between can
// be stored as one likes. On two cores of a Zen 5, eager's ResNet-50 takes 175 ms row-major and 147 in
// channels_last, MobileNetV2 200 and 110.
//
// So does cuDNN on a GPU, whose tensor cores want channels_last: 64 images take eager's ResNet-50 11.1 ms row-major
// and 9.5 in channels_last on an H100 in f32 (with TF32), 7.9 and 5.5 in bf16. There ATen copies each weight that
// is not pointwise in every call, which does not pay for a few images.
#pragma once

#include <cstdint>
#include <span>

#include "loops/layout.h"

namespace braze::driver {

enum class ConvolutionLayout : uint8_t {
  traced,         ///< Eager's.
  channels_last,  ///< The channels innermost, of images and volumes.
};

/// The convolutions of `graph` with images or volumes of f32, bf16 or f16, and their backwards, each with what it
/// is to ask in channels_last. Empty if all lie like that already, or there are none.
loops::LayoutOverrides channels_last_convolutions(const ir::Graph& graph);

/// Whether these convolutions move less memory in channels_last: every operand and result that the library need not
/// rearrange counts for it; inputs of the program that are copied instead, images of few channels, and on a GPU
/// weights, count against it, and outputs twice.
/// \param pliable  Inputs and outputs that may lie in either layout: nothing is copied of them.
bool channels_last_pays(const ir::Graph& graph, const loops::LayoutOverrides& convolutions,
                        std::span<ir::Value* const> pliable = {});

}  // namespace braze::driver
