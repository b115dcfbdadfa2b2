// capture/sparse_gradients.h: lookups whose gradients are sparse tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <span>

namespace braze::capture {

class Recorder;

/// A gradient that is sparse is no value of a graph, but the lookup alone needs to stay out of it: where the
/// function's own gradients are wanted, it is refused by itself, and what is around it is recorded.
/// \throws UserError if `op` is a lookup, of rows or bags of them, that is told to be sparse, of a leaf: others get
/// theirs within graphs.
void refuse_sparse_gradient(Recorder& recorder, const c10::OperatorHandle& op, std::span<const c10::IValue> given);
/// The last error of this recorder's was that refusal. Asked once.
bool take_sparse_refusal(const Recorder& recorder) noexcept;

}  // namespace braze::capture
