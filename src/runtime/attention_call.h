// runtime/attention_call.h: attention of f32 and bf16 on a CPU by braze's own products, in place of ATen's.
//
// ATen's kernel multiplies by MKL's small products, which reach a third of what an AMD processor can do in f32, and
// a fifth in bf16.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "runtime/attention_form.h"

namespace braze::runtime {

/// What a recorded call of `scaled_dot_product_attention`, or of the kernel behind it that also gives the
/// logarithms of the sums, asks for. No dropout.
struct AttentionCall {
  struct Operands {
    const at::Tensor &query, &key, &value;  ///< [batch, heads, length, width], of one dtype.
    const at::Tensor* mask = nullptr;       ///< Broadcast to [batch, heads, queries, keys].
  };

  AttentionForm form;
  bool shares_heads = false;  ///< A head of keys for several of queries.

  /// nullopt if it is another operator, or draws.
  static std::optional<AttentionCall> of(const capture::CallPayload& payload);
  /// Faster than ATen here, and ATen would take its own kernel of the kind.
  bool serves(const Operands& operands) const;
  /// \param logsumexp  [batch, heads, queries] of f32, or null. Results share no memory with operands.
  /// \returns false where the results are to be computed anew: one is NaN or infinite, and what ATen's kernel gives
  /// there depends on its blocks; or `out` has no rows.
  bool run(const Operands& operands, const at::Tensor& out, const at::Tensor* logsumexp) const;
};

}  // namespace braze::runtime
