// runtime/attention_gradients.h: the backward of attention of f32 and bf16 on a CPU, by braze's own products.
//
// Scores are computed anew, a row a key, so that weights and their gradients are the left operands of the products
// for keys and values as they lie (Dao et al., "FlashAttention", 2022, algorithm 4).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "runtime/attention_form.h"

namespace braze::runtime {

/// A recorded call of `_scaled_dot_product_flash_attention_for_cpu_backward` without dropout.
struct AttentionGradientsCall {
  struct Operands {
    const at::Tensor &gradient, &query, &key, &value, &out;  ///< [batch, heads, length, width], of one dtype.
    const at::Tensor& logsumexp;                             ///< [batch, heads, queries] of f32.
    const at::Tensor* mask = nullptr;                        ///< Broadcast to [batch, heads, queries, keys].
  };
  struct Results {
    const at::Tensor &query, &key, &value;
  };

  AttentionForm form;

  /// nullopt if it is another operator, or there is dropout.
  static std::optional<AttentionGradientsCall> of(const capture::CallPayload& payload);
  /// Faster than ATen here.
  bool serves(const Operands& operands) const;
  /// Results share no memory with operands.
  /// \returns false where the results are to be computed anew, as of the forward: one is NaN or infinite, or has no
  /// rows.
  bool run(const Operands& operands, const Results& results) const;
};

}  // namespace braze::runtime
