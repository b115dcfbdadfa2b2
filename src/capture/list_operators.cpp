#include "capture/list_operators.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

#include "capture/number.h"
#include "capture/plain_number.h"

namespace braze::capture {
namespace {

using torch::jit::Stack;
using Tensors = std::vector<at::Tensor>;

/// The arguments of a call in the order of the schema, taken off the stack.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, Stack* stack)
      : values_(torch::jit::pop(*stack, op.schema().arguments().size())) {}
  Tensors list() { return next().toTensorVector(); }
  double real() { return next().toDouble(); }
  int64_t integer() { return next().toInt(); }
  bool flag() { return next().toBool(); }
  at::Tensor tensor() { return next().toTensor(); }
  at::Tensor optional() {
    const c10::IValue& value = next();
    return value.isNone() ? at::Tensor() : value.toTensor();
  }
  /// A float, or a tensor with one.
  at::Tensor number() {
    const c10::IValue& value = next();
    if (value.isTensor()) return to_number(value.toTensor());
    return plain_number(value.toDouble());
  }

 private:
  const c10::IValue& next() { return values_.at(place_++); }
  std::vector<c10::IValue> values_;
  size_t place_ = 0;
};

/// PyTorch has the operator one by one beside its kernels for a GPU.
void one_by_one(const c10::OperatorHandle& op, Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

/// Of addcmul and addcdiv, where one tensor holds the factor of each.
template <at::Tensor (*compute)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&)>
void with_factors(const c10::OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const Tensors self = arguments.list(), first = arguments.list(), second = arguments.list();
  const Tensors factors = arguments.tensor().unbind();
  TORCH_CHECK(first.size() == self.size() && second.size() == self.size() && factors.size() == self.size(),
              op.schema().name(), ": lists of different lengths");
  const bool is_in_place = op.schema().returns().empty();
  // All before the first is wanted: numbers of the CPU travel to a GPU together (passes/number_copies.h).
  Tensors numbers, results;
  for (const at::Tensor& factor : factors) numbers.push_back(to_number(factor));
  for (size_t k = 0; k < self.size(); ++k) {
    const at::Tensor result = compute(self[k], first[k], second[k], c10::Scalar(to_sym_float(numbers[k])));
    if (is_in_place)
      self[k].copy_(result);
    else
      results.push_back(result);
  }
  if (!is_in_place) stack->emplace_back(std::move(results));
}

// ---- an optimizer's step. Sources: ATen/native/cpu/Fused*Kernel.cpp, whose order of operations it is.

/// What a scaler of gradients has found: nothing is written where some gradient is infinite.
class Scaled {
 public:
  Scaled(at::Tensor scale, const at::Tensor& found_infinite)
      : scale_(std::move(scale)), skips_(found_infinite.defined() ? found_infinite.eq(1) : at::Tensor()) {}
  void store(const at::Tensor& target, const at::Tensor& value) const {
    target.copy_(skips_.defined() ? at::where(skips_, target, value) : value);
  }
  at::Tensor gradient(const at::Tensor& gradient, bool maximize) const {
    at::Tensor mine = gradient;
    if (scale_.defined()) store(gradient, mine = gradient / scale_);
    return maximize ? mine.neg() : mine;
  }

 private:
  const at::Tensor scale_, skips_;
};

/// beta ** step, a number each. The code for a GPU has no powers of doubles.
at::Tensor after_steps(double beta, const at::Tensor& step) {
  if (!step.is_cuda() || beta < 0) return at::pow(beta, step);
  return beta > 0 ? (step * std::log(beta)).exp() : step.eq(0).to(step.scalar_type());
}

/// 1 - rate * decay. Of two plain numbers ATen makes one of the default dtype, which knows fewer digits.
at::Tensor left_by_decay(const at::Tensor& rate, double decay) {
  if (is_number(rate) || !rate.is_cpu()) return 1 - rate * decay;
  return plain_number(1 - *rate.const_data_ptr<double>() * decay);
}

template <bool decouples_decay>
void adam(const c10::OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const Tensors parameters = arguments.list(), gradients = arguments.list(), averages = arguments.list(),
                squares = arguments.list(), largest_squares = arguments.list(), steps = arguments.list();
  const at::Tensor rate = arguments.number();
  const double beta1 = arguments.real(), beta2 = arguments.real(), decay = arguments.real(), eps = arguments.real();
  const bool amsgrad = arguments.flag(), maximize = arguments.flag();
  const at::Tensor scale = arguments.optional();
  const Scaled scaled(scale, arguments.optional());
  for (size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor step = to_number(steps.at(k));
    const at::Tensor root_of_correction = (1 - after_steps(beta2, step)).sqrt();
    const at::Tensor step_size = rate / (1 - after_steps(beta1, step));
    at::Tensor parameter = parameters[k], gradient = scaled.gradient(gradients.at(k), maximize);
    if (decay != 0) {
      if (decouples_decay)
        parameter = parameter * left_by_decay(rate, decay);
      else
        gradient = gradient + parameter * decay;
    }
    const at::Tensor average = averages.at(k) * beta1 + gradient * (1 - beta1);
    const at::Tensor square = squares.at(k) * beta2 + gradient * gradient * (1 - beta2);
    const at::Tensor largest = amsgrad ? at::maximum(largest_squares.at(k), square) : square;
    const at::Tensor divisor = largest.sqrt() / root_of_correction + eps;
    const at::Tensor moved = parameter - step_size * average / divisor;
    scaled.store(averages[k], average);
    scaled.store(squares[k], square);
    if (amsgrad) scaled.store(largest_squares[k], largest);
    scaled.store(parameters[k], moved);
  }
}

void sgd(const c10::OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const Tensors parameters = arguments.list(), gradients = arguments.list(), momenta = arguments.list();
  const double decay = arguments.real(), momentum = arguments.real();
  const at::Tensor rate = arguments.number();
  const double dampening = arguments.real();
  const bool nesterov = arguments.flag(), maximize = arguments.flag(), is_first = arguments.flag();
  const at::Tensor scale = arguments.optional();
  const Scaled scaled(scale, arguments.optional());
  for (size_t k = 0; k < parameters.size(); ++k) {
    at::Tensor gradient = scaled.gradient(gradients.at(k), maximize);
    if (decay != 0) gradient = gradient + parameters[k] * decay;
    if (momentum != 0) {
      const at::Tensor mean = is_first ? gradient : momenta.at(k) * momentum + gradient * (1 - dampening);
      scaled.store(momenta.at(k), mean);
      gradient = nesterov ? gradient + mean * momentum : mean;
    }
    scaled.store(parameters[k], parameters[k] - gradient * rate);
  }
}

void adagrad(const c10::OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const Tensors parameters = arguments.list(), gradients = arguments.list(), sums = arguments.list(),
                steps = arguments.list();
  const at::Tensor rate = arguments.number();
  const double rate_decay = arguments.real(), decay = arguments.real(), eps = arguments.real();
  const bool maximize = arguments.flag();
  const at::Tensor scale = arguments.optional();
  const Scaled scaled(scale, arguments.optional());
  for (size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor now = rate / (1 + (to_number(steps.at(k)) - 1) * rate_decay);
    at::Tensor gradient = scaled.gradient(gradients.at(k), maximize);
    if (decay != 0) gradient = gradient + parameters[k] * decay;
    const at::Tensor sum = sums.at(k) + gradient * gradient;
    const at::Tensor moved = parameters[k] - now * gradient / (sum.sqrt() + eps);
    scaled.store(sums[k], sum);
    scaled.store(parameters[k], moved);
  }
}

// ---- a scaler of gradients. Sources: ATen/native/cpu/AmpGradScalerKernels.cpp.

void check_and_unscale(const c10::OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const Tensors gradients = arguments.list();
  const at::Tensor found = arguments.tensor(), inverse = arguments.tensor();
  TORCH_CHECK(found.numel() == 1 && inverse.numel() == 1, op.schema().name(), ": not one element");
  at::Tensor is_infinite;
  for (const at::Tensor& gradient : gradients) {
    TORCH_CHECK(gradient.is_floating_point(), op.schema().name(), ": a gradient is not of floats");
    const at::Tensor mine = gradient.isfinite().all().logical_not();
    is_infinite = is_infinite.defined() ? is_infinite.logical_or(mine) : mine;
    const bool is_half = gradient.element_size() < 4;
    gradient.copy_((is_half ? gradient.to(at::kFloat) : gradient) * inverse.reshape({}));
  }
  if (is_infinite.defined()) found.copy_(at::where(is_infinite, at::ones_like(found), found));
}

void update_scale(const c10::OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const at::Tensor scale = arguments.tensor(), tracker = arguments.tensor(), found = arguments.tensor();
  const double growth = arguments.real(), backoff = arguments.real();
  const int64_t interval = arguments.integer();
  const at::Tensor now = scale.reshape({}), successful = tracker.reshape({}) + 1;  // Each has one element.
  const auto times = [&](double factor) { return (now.to(at::kDouble) * factor).to(now.scalar_type()); };
  const at::Tensor backs_off = found.reshape({}) != 0, grows = successful == interval, grown = times(growth);
  const at::Tensor onwards = at::where(grows.logical_and(grown.isfinite()), grown, now);
  const at::Tensor next = at::where(backs_off, times(backoff), onwards);
  tracker.copy_(at::where(backs_off.logical_or(grows), at::zeros_like(successful), successful));
  scale.copy_(next);
  stack->emplace_back(scale);
}

/// What these write to no version counter tells in eager.
template <Spread step>
void uncounted(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  step(op, stack);
}

struct Row {
  std::string_view name;  ///< With overload.
  Spread spread;
};
constexpr Row kRows[] = {
    {"aten::_foreach_addcmul.Tensor", with_factors<at::addcmul>},
    {"aten::_foreach_addcmul_.Tensor", with_factors<at::addcmul>},
    {"aten::_foreach_addcdiv.Tensor", with_factors<at::addcdiv>},
    {"aten::_foreach_addcdiv_.Tensor", with_factors<at::addcdiv>},
    {"aten::_fused_adam_", uncounted<adam<false>>},
    {"aten::_fused_adam_.tensor_lr", uncounted<adam<false>>},
    {"aten::_fused_adamw_", uncounted<adam<true>>},
    {"aten::_fused_adamw_.tensor_lr", uncounted<adam<true>>},
    {"aten::_fused_sgd_", uncounted<sgd>},
    {"aten::_fused_sgd_.tensor_lr", uncounted<sgd>},
    {"aten::_fused_adagrad_", uncounted<adagrad>},
    {"aten::_fused_adagrad_.tensor_lr", uncounted<adagrad>},
    {"aten::_amp_foreach_non_finite_check_and_unscale_", uncounted<check_and_unscale>},
    {"aten::_amp_update_scale_", uncounted<update_scale>},
};

}  // namespace

Spread find_spread(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  for (const Row& row : kRows)
    if (row.name == (name.overload_name.empty() ? name.name : name.name + "." + name.overload_name))
      return row.spread;
  const bool is_list =
      name.name.starts_with("aten::_foreach_") && name.overload_name.find("out") == std::string::npos;
  return is_list ? one_by_one : nullptr;
}

}  // namespace braze::capture
