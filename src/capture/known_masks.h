// capture/known_masks.h: masks of attention that hide nothing, or what comes later.
//
// Code that builds masks leaves one out where it sees, by reading the values or by asking whether something
// compiles, that nothing is hidden; while it is captured it builds `arange(n) >= 0`, expanded. With a mask, kernels
// are slower, and on a GPU one whose keys have a stride of 0 is refused by all that do not store the scores.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace braze::capture {

class Recorder;

/// Of scaled_dot_product_attention's arguments, in code that has asked whether it is compiled if a GPU draws random
/// numbers there, as each of its kernels draws others, and eager's have to come: puts None in the place of a mask
/// that is known to be true, or zero, throughout (passes/bounds.h), and that the operator would take; is_causal in
/// that of one that is known to be causal (passes/causal_masks.h). Other operators' are left alone.
void leave_out_known_mask(Recorder& recorder, const c10::OperatorHandle& op, std::span<c10::IValue> arguments,
                          bool has_asked);

}  // namespace braze::capture
