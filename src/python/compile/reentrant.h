// python/compile/reentrant.h: whether torch.utils.checkpoint with use_reentrant=True comes to what its function
// comes to.
//
// Its first run is without gradients; its second begins in the backward, on inputs that are detached, and has a
// backward of its own. Parameters get what that gives them there and then. So it may be seen
// - by hooks of theirs, which are called for each checkpoint instead of once for the sum;
// - where the function reads a tensor with a history that is none of its inputs: that backward goes on through it,
//   and frees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace braze::python {

/// To be asked for before the function is run. Another such checkpoint within it would warn, as the inputs that it
/// is given in the first run want no gradients.
struct HistoryMark {
  uint64_t node;   ///< Of autograd's.
  uint64_t marks;  ///< That were asked for.
};
HistoryMark history_mark();
/// Nothing sees whether `results`, computed of `inputs` since the mark, were computed by such a checkpoint.
bool is_same_within(std::span<const at::Tensor> results, std::span<const at::Tensor> inputs, HistoryMark mark);

}  // namespace braze::python
