// runtime/attention_form.h: what recorded calls of attention on a CPU, and of its backward, ask for, and where
// braze's own products serve.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "capture/trace.h"

namespace braze::runtime {

/// One operator of attention: where among its arguments each stands.
struct AttentionOperator {
  std::string_view name;
  size_t results;
  size_t operands;  ///< So many tensors come first.
  size_t mask, dropout, is_causal, scale;
};

struct AttentionForm {
  bool is_causal = false;
  std::optional<double> scale;
  bool has_mask = false;
  bool is_forced = false;  ///< Also where ATen's is expected to be faster (BRAZE_ATTENTION=panels).

  /// nullopt if it is another operator, or there is dropout.
  static std::optional<AttentionForm> of(const capture::CallPayload& payload, const AttentionOperator& op);
  /// The dtype has kernels, which are faster than ATen's here; the tensors [batch, heads, length, width] fit
  /// together but for their heads, and `width` is at most `widest`.
  bool serves(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor* mask,
              int64_t widest) const;
  float scale_of(int64_t width) const;
};

/// Rows of [batch, heads, length, width] that lie side by side in memory of the CPU's.
bool has_heads_of_rows(const at::Tensor& tensor, at::ScalarType type);
/// A mask as [batch, heads, queries, keys]; undefined where there is none.
at::Tensor expanded_mask(const at::Tensor* mask, const at::Tensor& query, const at::Tensor& key);

}  // namespace braze::runtime
