#include "runtime/attention_gradients.h"

#include <ATen/Parallel.h>

#include <atomic>

#include "runtime/attention_heads.h"
#include "runtime/attention_mask.h"
#include "runtime/panel_matmul.h"

namespace braze::runtime {

namespace {

constexpr int64_t stride = 80;  ///< Of a block's scores: a query each, up to a multiple of 16.
static_assert(stride >= queries_at_once && stride % 16 == 0);

/// One thread's work, a head at a time.
template <typename T>
class Worker {
 public:
  Worker(const AttentionGradientsCall& call, const AttentionGradientsCall::Operands& operands,
         const AttentionGradientsCall::Results& results)
      : call_(call), o_(operands), results_(results) {
    const int64_t across = panels_.count(width_) * panels_.width, queries = std::min(queries_, queries_at_once);
    const int64_t block = panels_.count(queries) * panels_.width;
    for (Scratch* one : {&keys_f32_, &values_f32_, &key_sums_, &value_sums_}) one->reserve(keys_ * width_);
    turned_keys_.reserve(width_ * turned_stride_);
    for (Scratch* one : {&queries_f32_, &gradients_f32_, &outs_f32_}) one->reserve(queries * width_);
    for (Scratch* one : {&query_panels_, &gradient_panels_}) one->reserve(queries * across);
    for (Scratch* one : {&turned_query_panels_, &turned_gradient_panels_}) one->reserve(width_ * block);
    slope_panels_.reserve(keys_at_once * block);
    for (Scratch* one : {&scores_, &slopes_}) one->reserve(keys_at_once * stride);
    if (o_.mask) mask_.reserve(keys_at_once * stride);
    query_sums_.reserve(width_ * stride);
    row_.reserve(width_);
  }

  /// \returns whether a result is NaN or infinite.
  bool run(int64_t batch, int64_t head) {
    key_ = as_floats(head_of<const T>(o_.key, batch, head), 0, keys_, width_, keys_f32_);
    value_ = as_floats(head_of<const T>(o_.value, batch, head), 0, keys_, width_, values_f32_);
    for (int64_t k = 0; k < keys_; ++k)
      for (int64_t i = 0; i < width_; ++i)
        turned_keys_.data()[i * turned_stride_ + k] = key_.data[k * key_.row_stride + i];
    std::fill_n(key_sums_.data(), keys_ * width_, 0.0f);
    std::fill_n(value_sums_.data(), keys_ * width_, 0.0f);
    bool is_special = false;
    for (int64_t first = 0; first < queries_; first += queries_at_once)
      is_special |= run_queries(batch, head, first, std::min(queries_at_once, queries_ - first));
    const auto to_key = head_of<T>(results_.key, batch, head), to_value = head_of<T>(results_.value, batch, head);
    for (int64_t k = 0; k < keys_; ++k) {
      is_special |= store_row(key_sums_.data() + k * width_, to_key.data + k * to_key.row_stride, width_);
      is_special |= store_row(value_sums_.data() + k * width_, to_value.data + k * to_value.row_stride, width_);
    }
    return is_special;
  }

 private:
  /// Rows of a block as a right operand, and turned around.
  void pack(Head<const float> rows, int64_t count, const Scratch& as_they_are, const Scratch& turned) const {
    panels_.pack_all({.b = rows.data, .n = width_, .k = count, .b_rows = rows.row_stride, .b_columns = 1},
                     as_they_are.data());
    panels_.pack_all({.b = rows.data, .n = count, .k = width_, .b_rows = 1, .b_columns = rows.row_stride},
                     turned.data());
  }

  bool run_queries(int64_t batch, int64_t head, int64_t first, int64_t count) {
    const auto query = as_floats(head_of<const T>(o_.query, batch, head), first, count, width_, queries_f32_);
    const auto gradient =
        as_floats(head_of<const T>(o_.gradient, batch, head), first, count, width_, gradients_f32_);
    const auto out = as_floats(head_of<const T>(o_.out, batch, head), first, count, width_, outs_f32_);
    const float* logs = o_.logsumexp.const_data_ptr<float>() + batch * o_.logsumexp.stride(0) +
                        head * o_.logsumexp.stride(1) + first * o_.logsumexp.stride(2);
    bool is_special = false;
    for (int64_t row = 0; row < count; ++row) {
      logs_[row] = logs[row * o_.logsumexp.stride(2)];
      is_special |= !std::isfinite(logs_[row]);
      const float *a = gradient.data + row * gradient.row_stride, *b = out.data + row * out.row_stride;
      float delta = 0;
      for (int64_t i = 0; i < width_; ++i) delta += a[i] * b[i];
      delta_[row] = delta;
    }
    pack(query, count, query_panels_, turned_query_panels_);
    pack(gradient, count, gradient_panels_, turned_gradient_panels_);
    std::fill_n(query_sums_.data(), width_ * stride, 0.0f);
    for (int64_t begin = 0; begin < keys_; begin += keys_at_once) {
      if (call_.form.is_causal && begin >= first + count) break;
      run_block(batch, head, first, count, begin, std::min(keys_at_once, keys_ - begin));
    }
    const auto to = head_of<T>(results_.query, batch, head);
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < width_; ++i) row_.data()[i] = query_sums_.data()[i * stride + row];
      is_special |= store_row(row_.data(), to.data + (first + row) * to.row_stride, width_);
    }
    return is_special;
  }

  void run_block(int64_t batch, int64_t head, int64_t first, int64_t queries, int64_t begin, int64_t keys) {
    const auto by_queries = [&](Head<const float> rows, const Scratch& panels, const Scratch& to) {
      panels_.multiply_all({.a = rows.data + begin * rows.row_stride,
                            .panels = panels.data(),
                            .out = to.data(),
                            .m = keys,
                            .n = queries,
                            .k = width_,
                            .a_stride = rows.row_stride,
                            .out_stride = stride});
    };
    by_queries(key_, turned_query_panels_, scores_);
    by_queries(value_, turned_gradient_panels_, slopes_);
    if (o_.mask) read_mask(*o_.mask, {batch, head, first, queries, begin, keys}, mask_.data(), 1, stride);
    functions_.weigh_back({.scores = scores_.data(),
                           .slopes = slopes_.data(),
                           .mask = o_.mask ? mask_.data() : nullptr,
                           .logsumexp = logs_,
                           .delta = delta_,
                           .keys = keys,
                           .queries = queries,
                           .stride = stride,
                           .scale = scale_,
                           .is_causal = call_.form.is_causal,
                           .visible = begin - first});
    const auto add_to_keys = [&](const Scratch& left, const Scratch& panels, const Scratch& to) {
      panels_.multiply_all({.a = left.data(),
                            .panels = panels.data(),
                            .out = to.data() + begin * width_,
                            .m = keys,
                            .n = width_,
                            .k = queries,
                            .a_stride = stride,
                            .out_stride = width_,
                            .adds = true});
    };
    add_to_keys(scores_, gradient_panels_, value_sums_);
    add_to_keys(slopes_, query_panels_, key_sums_);
    panels_.pack_all({.b = slopes_.data(), .n = queries, .k = keys, .b_rows = stride, .b_columns = 1},
                     slope_panels_.data());
    panels_.multiply_all({.a = turned_keys_.data() + begin,
                          .panels = slope_panels_.data(),
                          .out = query_sums_.data(),
                          .m = width_,
                          .n = queries,
                          .k = keys,
                          .a_stride = turned_stride_,
                          .out_stride = stride,
                          .adds = true});
  }

  const AttentionGradientsCall& call_;
  const AttentionGradientsCall::Operands& o_;
  const AttentionGradientsCall::Results& results_;
  const PanelFunctions& panels_ = panel_matmul();
  const AttentionFunctions& functions_ = attention_functions();
  const int64_t queries_ = o_.query.size(2), keys_ = o_.key.size(2), width_ = o_.query.size(3);
  const float scale_ = call_.form.scale_of(width_);
  Head<const float> key_{}, value_{};
  Scratch keys_f32_, values_f32_, queries_f32_, gradients_f32_, outs_f32_;  ///< Widened.
  const int64_t turned_stride_ = keys_ + 16;  ///< Rows a power of two apart would share lines of the nearest cache.
  Scratch turned_keys_;                       ///< [width, turned_stride_]
  Scratch key_sums_, value_sums_;             ///< [keys, width]
  Scratch query_sums_;                        ///< [width, stride]: of a block of queries.
  Scratch query_panels_, gradient_panels_, turned_query_panels_, turned_gradient_panels_, slope_panels_;
  Scratch scores_, slopes_, mask_;  ///< [keys, stride]: of a block.
  Scratch row_;
  float logs_[stride] = {}, delta_[stride] = {};
};

template <typename T>
bool run_as(const AttentionGradientsCall& call, const AttentionGradientsCall::Operands& operands,
            const AttentionGradientsCall::Results& results) {
  const int64_t heads = operands.query.size(1);
  std::atomic<bool> is_special = false;
  at::parallel_for(0, operands.query.size(0) * heads, 1, [&](int64_t begin, int64_t end) {
    Worker<T> worker(call, operands, results);
    for (int64_t i = begin; i < end; ++i)
      if (worker.run(i / heads, i % heads)) is_special = true;
  });
  return !is_special;
}

}  // namespace

std::optional<AttentionGradientsCall> AttentionGradientsCall::of(const capture::CallPayload& payload) {
  // (gradient, query, key, value, out, logsumexp, dropout, is_causal, mask, scale)
  constexpr AttentionOperator backward{.name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                                       .results = 3,
                                       .operands = 6,
                                       .mask = 8,
                                       .dropout = 6,
                                       .is_causal = 7,
                                       .scale = 9};
  const auto form = AttentionForm::of(payload, backward);
  return form ? std::optional(AttentionGradientsCall{*form}) : std::nullopt;
}

bool AttentionGradientsCall::serves(const Operands& o) const {
  constexpr int64_t widest = 256;
  const auto is_like_query = [&](const at::Tensor& one) {
    return has_heads_of_rows(one, o.query.scalar_type()) && one.sizes() == o.query.sizes();
  };
  return form.serves(o.query, o.key, o.value, o.mask, widest) && o.query.size(1) == o.key.size(1) &&
         is_like_query(o.out) && is_like_query(o.gradient) && o.logsumexp.dim() == 3 &&
         o.logsumexp.scalar_type() == at::kFloat && o.query.size(0) * o.query.size(1) >= at::get_num_threads();
}

bool AttentionGradientsCall::run(const Operands& o, const Results& results) const {
  if (!has_rows(results.query) || !has_rows(results.key) || !has_rows(results.value)) return false;
  const at::Tensor mask = expanded_mask(o.mask, o.query, o.key);
  const Operands operands{o.gradient, o.query, o.key, o.value, o.out, o.logsumexp, o.mask ? &mask : nullptr};
  return o.query.scalar_type() == at::kFloat ? run_as<float>(*this, operands, results)
                                             : run_as<c10::BFloat16>(*this, operands, results);
}

}  // namespace braze::runtime
