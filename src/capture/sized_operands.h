// capture/sized_operands.h: expressions among the arguments of a call.
#pragma once

#include "capture/recorder.h"

namespace braze::capture {

/// A real tensor some of whose sizes are symbols of the trace.
bool is_varied(Recorder& recorder, const at::Tensor& tensor);
/// Among the sizes, strides and offsets of tensors, or the numbers.
bool has_expressions(std::span<const c10::IValue> arguments);
/// Throws UserError for a size that PyTorch's parser has taken for a tensor.
void refuse_size_as_tensor(const OpEntry& entry, std::span<const c10::IValue> arguments);
/// Makes them numbers. Whether there was anything to specialise.
bool specialise_operands(Recorder& recorder, std::span<c10::IValue> arguments);

}  // namespace braze::capture
