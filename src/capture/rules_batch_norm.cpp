// Batch norm, with the statistics of the batch or the running ones. instance_norm comes as batch norm of a reshaped
// input.
#include <algorithm>

#include "capture/arithmetic.h"
#include "capture/call.h"
#include "capture/index_map.h"

namespace braze::capture {
namespace {

/// Where the arguments stand after (input, weight, bias, running_mean, running_var); -1: there are none.
struct Form {
  int running, training, momentum, eps;
};
constexpr Form kForms[] = {
    {3, 5, 6, 7},   // 0: native_batch_norm, _native_batch_norm_legit
    {3, -1, 5, 6},  // 1: _native_batch_norm_legit_no_training
    {-1, 3, 4, 5},  // 2: _native_batch_norm_legit.no_stats
    {3, 5, 6, 7},   // 3: cudnn_batch_norm, with a buffer of its own as fourth result
};

/// The parts of one call, all of them rows [C] in the type of the computation.
class BatchNorm {
 public:
  BatchNorm(Call& call, const Operand& x)
      : call_(call), x_(x), compute_(ir::compute_dtype(to_dtype(x.dtype))), channels_{x.sizes[1]} {}

  /// Operand `k`, or null if it is not given; false if it is of another type or size than eager's fast kernels
  /// take. A GPU's take f32 beside an input of halves, as autocast has it.
  bool take(size_t k, ir::Value*& row) {
    row = nullptr;
    if (!call_.has(k)) return true;
    const auto part = call_.operand(k);
    if (!part || part->sizes != channels_) return false;
    const bool is_mixed = on_gpu() && to_dtype(part->dtype) == compute_;
    if (part->dtype != x_.dtype && !is_mixed) return false;
    row = call_.cast(part->value, compute_);
    return true;
  }
  bool on_gpu() const { return call_.device().is_cuda(); }

  ir::Value* rows(Op op, std::initializer_list<ir::Value*> operands) const {
    return call_.node(op, operands, call_.contiguous(to_scalar_type((*operands.begin())->type->dtype), channels_));
  }
  ir::Value* number(const ir::Value* like, double value) const {
    return call_.scalar(to_scalar_type(like->type->dtype), value);
  }
  /// What makes the variance of so many elements unbiased, f64.
  ir::Value* correction(Dim count) const {
    if (count.is_number()) {
      const auto known = static_cast<double>(static_cast<int64_t>(count));
      return call_.scalar(ScalarType::Double, known / (known - 1));
    }
    const ir::Type* type = call_.contiguous(ScalarType::Double, {});
    return call_.node(Op::div, {wide_number(count), wide_number(count - 1)}, type);
  }
  ir::Value* wide_number(Dim number) const {
    return number_of(call_.graph(), number, to_device(call_.device()), DType::f64);
  }
  /// In f64, in which eager sums up f32 as well.
  ir::Value* wide(ir::Value* value) const { return call_.cast(value, DType::f64); }
  ir::Value* narrow(ir::Value* value) const { return call_.cast(value, compute_); }

  /// Mean and biased variance of the batch, f64.
  void statistics(ir::Value*& mean, ir::Value*& variance) const {
    if (on_gpu()) return statistics_at_once(mean, variance);
    const std::vector<int64_t> dims = reduced();
    const ir::Type* type = call_.contiguous(ScalarType::Double, channels_);
    const std::span<const int64_t> over(dims);
    ir::Value* x = wide(x_.value);
    mean = call_.node(Op::mean, {x}, type, {{"dims", over}, {"keepdim", false}});
    variance =
        call_.node(Op::var, {x}, type, {{"dims", over}, {"keepdim", false}, {"correction", ir::Number::of(0.0)}});
    if (compute_ == DType::f64 || !is_contiguous()) return;
    // Of dense inputs eager keeps the sum of squares in f32, where it may overflow: the result is 0 then.
    ir::Value* count = wide_number(numel(x_.sizes) / x_.sizes[1]);
    variance = rows(Op::div, {wide(narrow(rows(Op::mul, {variance, count}))), count});
  }

  /// As the buffers are that eager hands from the sums over the batch to what is made of them: in the input's type.
  ir::Value* stored(ir::Value* row) const {
    return on_gpu() ? narrow(row) : narrow(call_.cast(row, to_dtype(x_.dtype)));
  }

  /// x * scale + (bias - mean * scale), in the input's type and in the layout that eager gives the result: of a
  /// GPU's own kernels that of empty_like(); of cuDNN's and the CPU's contiguous or channels_last.
  ir::Value* apply(ir::Value* mean, ir::Value* scale, ir::Value* bias, bool of_cudnn) const {
    ir::Value* shift = rows(Op::mul, {mean, scale});
    shift = bias ? rows(Op::sub, {bias, shift}) : rows(Op::neg, {shift});
    const ir::Type* type = result_type(of_cudnn);
    ir::Value* scaled = call_.node(Op::mul, {input(), column(scale)}, type);
    return call_.cast(call_.node(Op::add, {scaled, column(shift)}, type), to_dtype(x_.dtype));
  }

  /// (x - mean) * scale + bias, as GPUs' kernels compute it while training: nothing is lost where the mean is far
  /// from zero.
  ir::Value* apply_centred(ir::Value* mean, ir::Value* scale, ir::Value* bias, bool of_cudnn) const {
    const ir::Type* type = result_type(of_cudnn);
    ir::Value* centred = call_.node(Op::sub, {input(), column(mean)}, type);
    ir::Value* result = call_.node(Op::mul, {centred, column(scale)}, type);
    if (bias) result = call_.node(Op::add, {result, column(bias)}, type);
    return call_.cast(result, to_dtype(x_.dtype));
  }

 private:
  /// In one of the two formats that eager's faster kernels take.
  bool is_contiguous() const {
    const Sizes dense = format_strides(x_.sizes, contiguous_format(x_));
    for (size_t k = 0; k < dense.size(); ++k)
      if (x_.sizes[k] != 1 && x_.strides[k] != dense[k]) return false;
    return true;
  }

  std::vector<int64_t> reduced() const {
    std::vector<int64_t> dims;
    for (int64_t dim = 0; dim < static_cast<int64_t>(x_.sizes.size()); ++dim)
      if (dim != 1) dims.push_back(dim);
    return dims;
  }

  /// Both sums in one pass over the input, which is what a GPU waits for. They are of distances from each channel's
  /// first element, so that the squares do not lose a variance that is small beside the mean.
  /// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983.
  void statistics_at_once(ir::Value*& mean, ir::Value*& variance) const {
    Arithmetic a(call_);
    const std::vector<int64_t> dims = reduced();
    ir::Value* first = x_.value;
    for (const int64_t dim : dims) first = a.slice(first, dim, 0, 1);
    first = wide(first);
    ir::Value* off = a.op(Op::sub, wide(x_.value), first);
    const auto mean_of = [&](ir::Value* value) {
      return a.reduce(Op::mean, value, Sizes(dims.begin(), dims.end()));
    };
    ir::Value* shift = mean_of(off);
    mean = a.op(Op::add, shift, a.reshape(first, channels_));
    ir::Value* found = a.op(Op::sub, mean_of(a.op(Op::mul, off, off)), a.op(Op::mul, shift, shift));
    variance = a.op(Op::maximum, found, a.number(DType::f64, 0));
  }

  ir::Value* input() const { return call_.cast(x_.value, compute_); }
  ir::Value* column(ir::Value* row) const {
    Sizes sizes(x_.sizes.size() - 1, 1);
    sizes[0] = channels_[0];
    return call_.node(Op::reshape, {row}, call_.contiguous(to_scalar_type(compute_), sizes));
  }
  const ir::Type* result_type(bool of_cudnn) const {
    const bool like_input = on_gpu() && !of_cudnn;
    const Sizes strides =
        like_input ? preserved_strides(x_.sizes, x_.strides) : format_strides(x_.sizes, contiguous_format(x_));
    return call_.type(to_scalar_type(compute_), x_.sizes, strides);
  }

  Call& call_;
  const Operand& x_;
  DType compute_;
  Sizes channels_;
};

/// Source: batch_norm_cpu_update_stats_template and batch_norm_cpu_contiguous_impl in ATen/native: x * (w * rstd) +
/// (b - mean * w * rstd). Results: output, and mean and rstd of the batch (empty without training).
bool batch_norm(Call& call, const RuleRow& row) {
  const Form& form = kForms[row.variant];
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.size() < 2 || numel(x->sizes) == 0)
    return false;
  // Kernels for half types take out= tensors to lie as the input does, whether they do or not.
  if (call.entry.mode == OpEntry::Mode::out) return false;
  // Of half types, GPUs keep them in f32.
  const ScalarType kept = call.device().is_cpu() ? x->dtype : to_scalar_type(ir::compute_dtype(to_dtype(x->dtype)));
  const bool training = form.training >= 0 && call.flag(form.training), of_cudnn = row.variant == 3;
  BatchNorm norm(call, *x);
  ir::Value *weight, *bias, *running_mean = nullptr, *running_variance = nullptr;
  if (!norm.take(1, weight) || !norm.take(2, bias)) return false;
  if (form.running >= 0 && (!norm.take(3, running_mean) || !norm.take(4, running_variance))) return false;
  if (!training && (!running_mean || !running_variance)) return false;
  if (!running_mean != !running_variance) return false;

  ir::Value *mean = running_mean, *rstd, *batch_mean = nullptr, *batch_variance = nullptr;
  const double eps = call.real(form.eps);
  if (training) {
    norm.statistics(batch_mean, batch_variance);
    ir::Value* root = norm.rows(Op::sqrt, {norm.rows(Op::add, {batch_variance, norm.number(batch_variance, eps)})});
    rstd = norm.stored(norm.rows(Op::reciprocal, {root}));
    mean = norm.stored(batch_mean);
  } else {
    ir::Value* variance = norm.rows(Op::add, {running_variance, norm.number(running_variance, eps)});
    rstd = norm.rows(Op::reciprocal, {norm.rows(Op::sqrt, {variance})});
  }
  ir::Value* scale = weight ? norm.rows(Op::mul, {rstd, weight}) : rstd;
  const bool is_centred = training && norm.on_gpu();
  call.give(is_centred ? norm.apply_centred(mean, scale, bias, of_cudnn) : norm.apply(mean, scale, bias, of_cudnn));
  // cuDNN's buffer is for its own backward, which is not called.
  const auto give_buffer = [&] { return call.give(call.full(call.contiguous(ScalarType::Byte, {0}), 0)); };
  if (!training && !call.device().is_cpu() && !of_cudnn) {  // The GPU's kernel gives what it has used.
    call.give(call.cast(mean, to_dtype(kept)));
    return call.give(call.cast(rstd, to_dtype(kept)));
  }
  if (!training) {
    const ir::Type* none = call.contiguous(kept, {0});
    for (int k = 0; k < 2; ++k) call.give(call.full(none, 0));
    return !of_cudnn || give_buffer();
  }
  call.give(call.cast(mean, to_dtype(kept)));
  call.give(call.cast(rstd, to_dtype(kept)));
  if (of_cudnn) give_buffer();
  if (!running_mean) return true;
  const double momentum = call.real(form.momentum);
  const Dim count = numel(x->sizes) / x->sizes[1];
  const auto follow = [&](size_t k, ir::Value* running, ir::Value* fresh) {
    ir::Value* old = norm.rows(Op::mul, {norm.wide(running), norm.number(fresh, 1 - momentum)});
    ir::Value* sum = norm.rows(Op::add, {norm.rows(Op::mul, {fresh, norm.number(fresh, momentum)}), old});
    const DType stored = to_dtype(call.tensor(k).scalar_type());
    write(call.recorder, *call.recorder.view_of(call.tensor(k)), call.cast(sum, stored));
  };
  ir::Value* unbiased = norm.rows(Op::mul, {batch_variance, norm.correction(count)});
  follow(3, running_mean, batch_mean);
  follow(4, running_variance, unbiased);
  return true;
}

}  // namespace

std::span<const RuleRow> batch_norm_rules() {
  static constexpr RuleRow rows[] = {
      {"native_batch_norm", batch_norm, Op::input, 0},
      {"_native_batch_norm_legit", batch_norm, Op::input, 0},
      {"_native_batch_norm_legit_no_training", batch_norm, Op::input, 1},
      {"_native_batch_norm_legit.no_stats", batch_norm, Op::input, 2},
      {"cudnn_batch_norm", batch_norm, Op::input, 3},
  };
  return rows;
}

}  // namespace braze::capture
