#include "runtime/attention_gradients.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <limits>

#include "runtime/attention_heads.h"
#include "runtime/attention_mask.h"
#include "runtime/matmul_choice.h"
#include "runtime/panel_matmul.h"
#include "support/switches.h"

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
    scale_ = static_cast<float>(call.scale.value_or(1.0 / std::sqrt(static_cast<double>(width_))));
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
  void multiply(const PanelMatmul& product) const {
    for (int64_t panel = 0; panel < panels_.count(product.n); ++panel)
      panels_.multiply(product, panel, 0, product.m);
  }
  /// Rows of a block as a right operand, and turned around.
  void pack(Head<const float> rows, int64_t count, const Scratch& as_they_are, const Scratch& turned) const {
    panels_.pack({.b = rows.data, .n = width_, .k = count, .b_rows = rows.row_stride, .b_columns = 1}, 0,
                 panels_.count(width_), as_they_are.data());
    panels_.pack({.b = rows.data, .n = count, .k = width_, .b_rows = 1, .b_columns = rows.row_stride}, 0,
                 panels_.count(count), turned.data());
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
      if (call_.is_causal && begin >= first + count) break;
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
      multiply({.a = rows.data + begin * rows.row_stride,
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
                           .is_causal = call_.is_causal,
                           .visible = begin - first});
    const auto add_to_keys = [&](const Scratch& left, const Scratch& panels, const Scratch& to) {
      multiply({.a = left.data(),
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
    panels_.pack({.b = slopes_.data(), .n = queries, .k = keys, .b_rows = stride, .b_columns = 1}, 0,
                 panels_.count(queries), slope_panels_.data());
    multiply({.a = turned_keys_.data() + begin,
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
  float scale_ = 1;
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
  const auto& stack = payload.stack;
  const std::string_view way = switches::text(switches::attention);
  // (gradient, query, key, value, out, logsumexp, dropout, is_causal, mask, scale)
  constexpr size_t mask = 8;
  if (payload.op.operator_name().name != "aten::_scaled_dot_product_flash_attention_for_cpu_backward" ||
      !payload.cloned.empty() || way == "aten" || payload.results.size() != 3)
    return std::nullopt;
  for (size_t k = 0; k < 3; ++k)
    if (payload.results[k].returned != static_cast<int32_t>(k)) return std::nullopt;
  const size_t given = payload.slots.size();
  if ((given != 6 && given != 7) || !stack[6].isDouble() || stack[6].toDouble() != 0 || !stack[7].isBool() ||
      !(stack[9].isNone() || stack[9].isDouble()))
    return std::nullopt;
  for (size_t k = 0; k < given; ++k)
    if (payload.slots[k].argument != (k < 6 ? k : mask) || payload.slots[k].element >= 0) return std::nullopt;
  return AttentionGradientsCall{.is_causal = stack[7].toBool(),
                                .scale = stack[9].isNone() ? std::nullopt : std::optional(stack[9].toDouble()),
                                .has_mask = given == 7,
                                .is_forced = way == "panels"};
}

bool AttentionGradientsCall::serves(const Operands& o) const {
  const at::Tensor &query = o.query, &key = o.key, &value = o.value;
  const at::ScalarType type = query.scalar_type();
  const auto fits = [&](const at::Tensor& one, const at::Tensor& like) {
    return one.layout() == c10::kStrided && one.is_cpu() && one.dim() == 4 && one.scalar_type() == type &&
           one.sizes() == like.sizes() && has_rows(one) && one.numel() > 0;
  };
  if ((type != at::kFloat && type != at::kBFloat16) || !fits(query, query) || !fits(key, key) ||
      !fits(value, key) || !fits(o.out, query) || !fits(o.gradient, query))
    return false;
  constexpr int64_t widest = 256, least_queries = 12;
  if ((is_intel() && !is_forced) || at::globalContext().deterministicAlgorithms() || query.size(0) != key.size(0) ||
      query.size(1) != key.size(1) || query.size(3) != key.size(3) || query.size(3) > widest ||
      query.size(2) < least_queries || o.logsumexp.dim() != 3 || o.logsumexp.scalar_type() != at::kFloat ||
      query.size(0) * query.size(1) < at::get_num_threads())
    return false;
  return !o.mask || (is_readable_mask(*o.mask) && !is_causal);
}

bool AttentionGradientsCall::run(const Operands& o, const Results& results) const {
  if (!has_rows(results.query) || !has_rows(results.key) || !has_rows(results.value)) return false;
  at::Tensor mask;
  if (o.mask) mask = o.mask->expand({o.query.size(0), o.query.size(1), o.query.size(2), o.key.size(2)});
  const Operands operands{o.gradient, o.query, o.key, o.value, o.out, o.logsumexp, o.mask ? &mask : nullptr};
  return o.query.scalar_type() == at::kFloat ? run_as<float>(*this, operands, results)
                                             : run_as<c10::BFloat16>(*this, operands, results);
}

}  // namespace braze::runtime
