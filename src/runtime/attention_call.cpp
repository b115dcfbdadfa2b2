#include "runtime/attention_call.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "runtime/attention_heads.h"
#include "runtime/attention_mask.h"
#include "runtime/panel_matmul.h"

namespace braze::runtime {

namespace {

/// One thread's work: keys and values of a head in panels, and a block of queries.
template <typename T>
class Worker {
 public:
  Worker(const AttentionCall& call, const AttentionCall::Operands& operands, const at::Tensor& out,
         const at::Tensor* logsumexp)
      : call_(call), o_(operands), out_(out), logsumexp_(logsumexp) {
    const int64_t panel = panels_.width, blocks = (keys_ + keys_at_once - 1) / keys_at_once;
    const int64_t keys = std::min(keys_, keys_at_once), queries = std::min(queries_, queries_at_once);
    key_size_ = width_ * panels_.count(keys) * panel;
    value_size_ = keys * panels_.count(width_) * panel;
    key_panels_.reserve(blocks * key_size_);
    value_panels_.reserve(blocks * value_size_);
    scores_.reserve(queries * keys_at_once);
    results_.reserve(queries * width_);
    if constexpr (!std::is_same_v<T, float>) converted_.reserve(std::max(keys, queries) * width_);
    if (o_.mask) mask_.reserve(queries * keys_at_once);
  }

  void run(int64_t batch, int64_t head, int64_t first) {
    const int64_t of_keys = call_.shares_heads ? head / (o_.query.size(1) / o_.key.size(1)) : head;
    if (batch != batch_ || of_keys != head_) pack(batch, of_keys);
    const int64_t rows = std::min(queries_at_once, queries_ - first);
    const auto query = as_floats(head_of<const T>(o_.query, batch, head), first, rows, width_, converted_);
    std::fill_n(results_.data(), rows * width_, 0.0f);
    std::fill_n(greatest_, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sums_, rows, 0.0f);
    for (int64_t begin = 0, block = 0; begin < keys_; begin += keys_at_once, ++block) {
      if (call_.form.is_causal && begin >= first + rows) break;
      const int64_t count = std::min(keys_at_once, keys_ - begin);
      const PanelMatmul scores{.a = query.data,
                               .panels = key_panels_.data() + block * key_size_,
                               .out = scores_.data(),
                               .m = rows,
                               .n = count,
                               .k = width_,
                               .a_stride = query.row_stride,
                               .out_stride = keys_at_once};
      panels_.multiply_all(scores);
      if (o_.mask) read_mask(*o_.mask, {batch, head, first, rows, begin, count}, mask_.data(), keys_at_once, 1);
      functions_.weigh({.scores = scores_.data(),
                        .mask = o_.mask ? mask_.data() : nullptr,
                        .results = results_.data(),
                        .greatest = greatest_,
                        .sums = sums_,
                        .rows = rows,
                        .columns = count,
                        .width = width_,
                        .stride = keys_at_once,
                        .mask_stride = keys_at_once,
                        .scale = scale_,
                        .is_causal = call_.form.is_causal,
                        .visible = first + 1 - begin});
      const PanelMatmul weighed{.a = scores_.data(),
                                .panels = value_panels_.data() + block * value_size_,
                                .out = results_.data(),
                                .m = rows,
                                .n = width_,
                                .k = count,
                                .a_stride = keys_at_once,
                                .out_stride = width_,
                                .adds = true};
      panels_.multiply_all(weighed);
    }
    store(batch, head, first, rows);
  }
  bool has_nan() const { return has_nan_; }

 private:
  void pack(int64_t batch, int64_t head) {
    batch_ = batch, head_ = head;
    const auto key = head_of<const T>(o_.key, batch, head), value = head_of<const T>(o_.value, batch, head);
    for (int64_t begin = 0, block = 0; begin < keys_; begin += keys_at_once, ++block) {
      const int64_t count = std::min(keys_at_once, keys_ - begin);
      auto rows = as_floats(key, begin, count, width_, converted_);
      const PanelMatmul keys{.b = rows.data, .n = count, .k = width_, .b_rows = 1, .b_columns = rows.row_stride};
      panels_.pack_all(keys, key_panels_.data() + block * key_size_);
      rows = as_floats(value, begin, count, width_, converted_);
      const PanelMatmul values{.b = rows.data, .n = width_, .k = count, .b_rows = rows.row_stride, .b_columns = 1};
      panels_.pack_all(values, value_panels_.data() + block * value_size_);
    }
  }

  /// A query that sees nothing gives 0.
  void store(int64_t batch, int64_t head, int64_t first, int64_t rows) {
    const auto out = head_of<T>(out_, batch, head);
    for (int64_t row = 0; row < rows; ++row) {
      const float sum = sums_[row], factor = sum == 0 ? 1.0f : 1.0f / sum;
      float* results = results_.data() + row * width_;
      for (int64_t i = 0; i < width_; ++i) results[i] *= factor;
      has_nan_ |= store_row(results, out.data + (first + row) * out.row_stride, width_) || std::isnan(sum);
      if (!logsumexp_) continue;
      float* logs = logsumexp_->mutable_data_ptr<float>() + batch * logsumexp_->stride(0) +
                    head * logsumexp_->stride(1) + (first + row) * logsumexp_->stride(2);
      *logs = sum == 0 ? 0.0f : greatest_[row] + std::log(sum);  // 0 as in ATen, where nothing is seen.
    }
  }

  const AttentionCall& call_;
  const AttentionCall::Operands& o_;
  const at::Tensor& out_;
  const at::Tensor* logsumexp_;
  const PanelFunctions& panels_ = panel_matmul();
  const AttentionFunctions& functions_ = attention_functions();
  const int64_t queries_ = o_.query.size(2), keys_ = o_.key.size(2), width_ = o_.query.size(3);
  const float scale_ = call_.form.scale_of(width_);
  int64_t key_size_ = 0, value_size_ = 0;  ///< Numbers in the panels of a block of keys.
  int64_t batch_ = -1, head_ = -1;         ///< What lies in the panels.
  bool has_nan_ = false;
  Scratch key_panels_, value_panels_, scores_, results_, converted_, mask_;
  float greatest_[queries_at_once] = {}, sums_[queries_at_once] = {};
};

template <typename T>
bool run_as(const AttentionCall& call, const AttentionCall::Operands& operands, const at::Tensor& out,
            const at::Tensor* logsumexp) {
  const at::Tensor& query = operands.query;
  const int64_t heads = query.size(1), blocks = (query.size(2) + queries_at_once - 1) / queries_at_once;
  // In the order of heads, so that a thread packs few of them.
  const int64_t work = 2 * queries_at_once * operands.key.size(2) * query.size(3), least = 1 << 20;
  const int64_t grain = std::max<int64_t>(1, least / std::max<int64_t>(work, 1));
  std::atomic<bool> has_nan = false;
  at::parallel_for(0, query.size(0) * heads * blocks, grain, [&](int64_t begin, int64_t end) {
    Worker<T> worker(call, operands, out, logsumexp);
    for (int64_t i = begin; i < end; ++i)
      worker.run(i / (heads * blocks), i / blocks % heads, i % blocks * queries_at_once);
    if (worker.has_nan()) has_nan = true;
  });
  return !has_nan;
}

}  // namespace

std::optional<AttentionCall> AttentionCall::of(const capture::CallPayload& payload) {
  // (query, key, value, mask, dropout, is_causal, scale, enable_gqa)
  constexpr AttentionOperator whole{.name = "aten::scaled_dot_product_attention",
                                    .results = 1,
                                    .operands = 3,
                                    .mask = 3,
                                    .dropout = 4,
                                    .is_causal = 5,
                                    .scale = 6};
  // (query, key, value, dropout, is_causal, mask, scale)
  constexpr AttentionOperator kernel{.name = "aten::_scaled_dot_product_flash_attention_for_cpu",
                                     .results = 2,
                                     .operands = 3,
                                     .mask = 5,
                                     .dropout = 3,
                                     .is_causal = 4,
                                     .scale = 6};
  if (const auto form = AttentionForm::of(payload, whole)) return AttentionCall{*form, payload.stack[7].toBool()};
  if (const auto form = AttentionForm::of(payload, kernel)) return AttentionCall{*form};
  return std::nullopt;
}

bool AttentionCall::serves(const Operands& o) const {
  constexpr int64_t widest = 512;
  if (!at::globalContext().userEnabledFlashSDP() || !form.serves(o.query, o.key, o.value, o.mask, widest))
    return false;
  const int64_t heads = o.query.size(1), of_keys = o.key.size(1);
  return shares_heads ? heads % of_keys == 0 : heads == of_keys;
}

bool AttentionCall::run(const Operands& o, const at::Tensor& out, const at::Tensor* logsumexp) const {
  if (!has_rows(out)) return false;
  const at::Tensor mask = expanded_mask(o.mask, o.query, o.key);
  const Operands operands{o.query, o.key, o.value, o.mask ? &mask : nullptr};
  return o.query.scalar_type() == at::kFloat ? run_as<float>(*this, operands, out, logsumexp)
                                             : run_as<c10::BFloat16>(*this, operands, out, logsumexp);
}

}  // namespace braze::runtime
