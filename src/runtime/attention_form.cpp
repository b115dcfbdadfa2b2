#include "runtime/attention_form.h"

#include <ATen/Context.h>

#include <cmath>

#include "runtime/attention_heads.h"
#include "runtime/attention_mask.h"
#include "runtime/matmul_choice.h"
#include "support/switches.h"
#include "target/target.h"

namespace braze::runtime {

const AttentionFunctions& attention_functions() {
  return Target::host().isa == Isa::avx512 ? attention_avx512 : attention_avx2;
}

std::optional<AttentionForm> AttentionForm::of(const capture::CallPayload& payload, const AttentionOperator& op) {
  if (payload.op.operator_name().name != op.name || !payload.cloned.empty() || payload.results.size() != op.results)
    return std::nullopt;
  for (size_t k = 0; k < op.results; ++k)
    if (payload.results[k].returned != static_cast<int32_t>(k)) return std::nullopt;
  const auto& stack = payload.stack;
  const c10::IValue &dropout = stack[op.dropout], &causal = stack[op.is_causal], &scale = stack[op.scale];
  if (!dropout.isDouble() || dropout.toDouble() != 0 || !causal.isBool() || !(scale.isNone() || scale.isDouble()))
    return std::nullopt;
  const size_t given = payload.slots.size();
  if (given != op.operands && given != op.operands + 1) return std::nullopt;
  for (size_t k = 0; k < given; ++k)
    if (payload.slots[k].argument != (k < op.operands ? k : op.mask) || payload.slots[k].element >= 0)
      return std::nullopt;
  const std::string_view way = switches::text(switches::attention);
  if (way == "aten") return std::nullopt;
  return AttentionForm{.is_causal = causal.toBool(),
                       .scale = scale.isNone() ? std::nullopt : std::optional(scale.toDouble()),
                       .has_mask = given > op.operands,
                       .is_forced = way == "panels"};
}

bool AttentionForm::serves(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor* mask, int64_t widest) const {
  const at::ScalarType type = query.scalar_type();
  constexpr int64_t least_queries = 12;  // For fewer, panels cost more than they save.
  if ((type != at::kFloat && type != at::kBFloat16) || !has_heads_of_rows(query, type) ||
      !has_heads_of_rows(key, type) || !has_heads_of_rows(value, type))
    return false;
  if ((is_intel() && !is_forced) || at::globalContext().deterministicAlgorithms()) return false;
  if (query.size(0) != key.size(0) || key.sizes() != value.sizes() || query.size(3) != key.size(3) ||
      query.size(3) > widest || query.size(2) < least_queries)
    return false;
  return !mask || (is_readable_mask(*mask) && !is_causal);
}

float AttentionForm::scale_of(int64_t width) const {
  return static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(width))));
}

bool has_heads_of_rows(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.layout() == c10::kStrided && tensor.is_cpu() && tensor.dim() == 4 && tensor.scalar_type() == type &&
         tensor.numel() > 0 && has_rows(tensor) && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor expanded_mask(const at::Tensor* mask, const at::Tensor& query, const at::Tensor& key) {
  return mask ? mask->expand({query.size(0), query.size(1), query.size(2), key.size(2)}) : at::Tensor();
}

}  // namespace braze::runtime
