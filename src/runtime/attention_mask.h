// runtime/attention_mask.h: a block of a mask of attention as numbers that are added to scores.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <limits>

namespace braze::runtime {

/// Queries [first, first + queries) by keys [begin, begin + keys) of one head.
struct MaskBlock {
  int64_t batch, head, first, queries, begin, keys;
};

inline bool is_readable_mask(const at::Tensor& mask) {
  const at::ScalarType type = mask.scalar_type();
  return mask.is_cpu() && mask.layout() == c10::kStrided && mask.dim() <= 4 &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kBool);
}

/// \param mask  [batch, heads, queries, keys], any strides. What is false in a mask of bools is -inf.
/// Query q and key k go to `to[q * query_stride + k * key_stride]`.
inline void read_mask(const at::Tensor& mask, const MaskBlock& block, float* to, int64_t query_stride,
                      int64_t key_stride) {
  const auto copy = [&](const auto* data, const auto& number_of) {
    const auto* from = data + block.batch * mask.stride(0) + block.head * mask.stride(1) +
                       block.first * mask.stride(2) + block.begin * mask.stride(3);
    for (int64_t q = 0; q < block.queries; ++q)
      for (int64_t k = 0; k < block.keys; ++k)
        to[q * query_stride + k * key_stride] = number_of(from[q * mask.stride(2) + k * mask.stride(3)]);
  };
  const auto number = [](auto one) { return static_cast<float>(one); };
  if (mask.scalar_type() == at::kFloat)
    copy(mask.const_data_ptr<float>(), number);
  else if (mask.scalar_type() == at::kBFloat16)
    copy(mask.const_data_ptr<c10::BFloat16>(), number);
  else
    copy(mask.const_data_ptr<bool>(),
         [](bool seen) { return seen ? 0.0f : -std::numeric_limits<float>::infinity(); });
}

}  // namespace braze::runtime
