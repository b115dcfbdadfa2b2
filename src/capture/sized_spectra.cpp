// torch.stft of signals whose length is an expression, and torch.istft of so many frames: PyTorch's composite forms
// ask for numbers. The operators that they are made of know both.
#include <ATen/ATen.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/istft_native.h>
#include <ATen/ops/stft_native.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "capture/tracer_tensor.h"

namespace braze::capture {
namespace {

bool has_expression(const at::Tensor& tensor) {
  return as_tracer(tensor) && std::ranges::any_of(tensor.sym_sizes(), &c10::SymInt::is_symbolic);
}

/// The numbers of a transform that PyTorch's form has nothing to say against.
struct Transform {
  int64_t size, hop, window;

  bool fits(const at::Tensor& signal, const at::Tensor& weights) const {
    return hop > 0 && window > 0 && window <= size && size <= signal.sym_size(-1) && weights.dim() == 1 &&
           weights.sym_size(0) == window;
  }

  /// The window in the middle of a transform, zeros around it.
  at::Tensor centred(const at::Tensor& weights) const {
    if (window == size) return weights;
    at::Tensor all = at::zeros({size}, weights.options());
    all.narrow(0, (size - window) / 2, window).copy_(weights);
    return all;
  }

  /// (batch, length) as (batch, frames, size). Whose gradient knows expressions, unlike that of as_strided().
  at::Tensor frames(const at::Tensor& signal) const { return signal.unfold(1, size, hop); }
};

constexpr int64_t as_it_is = 0, by_root = 1, by_count = 2;  // ATen's fft_norm_mode.

at::Tensor stft(const at::Tensor& signal, int64_t n_fft, std::optional<int64_t> hop_length,
                std::optional<int64_t> win_length, const std::optional<at::Tensor>& window, bool normalized,
                std::optional<bool> onesided, std::optional<bool> return_complex,
                std::optional<bool> align_to_window) {
  const Transform transform{n_fft, hop_length.value_or(n_fft / 4), win_length.value_or(n_fft)};
  const bool has_window = window && window->defined();
  const at::Tensor weights = has_window             ? *window
                             : transform.window > 0 ? at::ones({transform.window}, signal.options())
                                                    : at::Tensor();
  const bool is_real = weights.defined() && signal.is_floating_point() && weights.is_floating_point();
  // What raises is left to PyTorch.
  if (!has_expression(signal) || !is_real || !return_complex.value_or(false) || align_to_window.value_or(false) ||
      signal.dim() < 1 || signal.dim() > 2 || !transform.fits(signal, weights))
    return at::native::stft(signal, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
                            align_to_window);
  if (!has_window) {
    TORCH_WARN_ONCE(
        "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. "
        "Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce spectral "
        "leakage.To suppress this warning and use a rectangular window, explicitly set "
        "`window=torch.ones(n_fft, device=<device>)`.");
  }
  const at::Tensor rows = signal.dim() == 1 ? signal.unsqueeze(0) : signal;
  const at::Tensor weighed = transform.frames(rows).mul(transform.centred(weights));
  at::Tensor spectrum = at::_fft_r2c(weighed, {2}, normalized ? by_root : as_it_is, onesided.value_or(true));
  spectrum.transpose_(1, 2);
  return signal.dim() == 1 ? spectrum.squeeze_(0) : spectrum;
}

/// What istft() is given, of which the length may be an expression.
struct Spectrum {
  at::Tensor values;  ///< (batch, frequencies, frames), or without a batch.
  std::optional<at::Tensor> window;
  std::optional<int64_t> hop_length, win_length;
  std::optional<c10::SymInt> length;
  std::optional<bool> onesided;
  int64_t n_fft;
  bool center, normalized, return_complex;

  Transform transform() const { return {n_fft, hop_length.value_or(n_fft / 4), win_length.value_or(n_fft)}; }
  bool is_cut() const { return onesided.value_or(values.sym_size(-2) != n_fft); }
  int64_t start() const { return center ? n_fft / 2 : 0; }
  /// Of all frames, one overlapping the other.
  c10::SymInt whole() const { return (values.sym_size(-1) - 1) * transform().hop + n_fft; }
  c10::SymInt end() const { return length ? *length + start() : whole() - start(); }

  /// PyTorch's form has nothing to say against them, and pads nothing.
  bool fits() const {
    const auto [size, hop, width] = transform();
    if (!has_expression(values) || !values.is_complex() || values.is_conj() || return_complex || size <= 0)
      return false;
    if (values.dim() != 2 && values.dim() != 3) return false;
    if (hop <= 0 || hop > width || width <= 0 || width > size) return false;
    if (values.sym_size(-2) != (is_cut() ? size / 2 + 1 : size) || values.sym_numel() == 0) return false;
    if (window && (window->dim() != 1 || !window->is_floating_point() || window->sym_size(0) != width))
      return false;
    return !length || (*length > 0 && end() <= whole());
  }
};

/// The frames are added up where they overlap, and divided by what their windows add up to.
at::Tensor istft(const Spectrum& given) {
  const int64_t size = given.n_fft, hop = given.transform().hop;
  const auto real = given.values.options().dtype(c10::toRealValueType(given.values.scalar_type()));
  const at::Tensor weights =
      given.transform().centred(given.window ? *given.window : at::ones({given.transform().window}, real));
  const bool has_batch = given.values.dim() == 3;
  at::Tensor frames = (has_batch ? given.values : given.values.unsqueeze(0)).transpose(1, 2);
  if (!given.is_cut()) frames = frames.slice(-1, 0, size / 2 + 1);
  frames = at::_fft_c2r(frames, {2}, given.normalized ? by_root : by_count, size) * weights.view({1, 1, size});
  const auto added = [&](const at::Tensor& parts) {
    return at::unfold_backward_symint(parts, {parts.sym_size(0), given.whole()}, 1, size, hop)
        .slice_symint(1, given.start(), given.end());
  };
  const at::Tensor signal = added(frames),
                   squares = added(weights.pow(2).expand_symint({1, given.values.sym_size(-1), size}));
  const at::Tensor lowest = squares.abs().min().lt(1e-11);
  TORCH_CHECK(!at::is_scalar_tensor_true(lowest), "window overlap add min: ", lowest);
  const at::Tensor all = signal / squares;
  return has_batch ? all : all.squeeze(0);
}

/// The schema says that the length is an int: only what takes boxes may be given an expression.
void istft_in_boxes(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, 10);
  const auto number = [&](size_t k) {
    return arguments[k].isNone() ? std::nullopt
                                 : std::optional(arguments[k].toSymInt().guard_int(__FILE__, __LINE__));
  };
  const auto flag = [&](size_t k) { return arguments[k].toOptional<bool>(); };
  const auto window = arguments[4].toOptional<at::Tensor>();
  const Spectrum given{
      .values = arguments[0].toTensor(),
      .window = window && window->defined() ? window : std::nullopt,
      .hop_length = number(2),
      .win_length = number(3),
      .length = arguments[8].isNone() ? std::nullopt : std::optional(arguments[8].toSymInt()),
      .onesided = flag(7),
      .n_fft = *number(1),
      .center = *flag(5),
      .normalized = *flag(6),
      .return_complex = *flag(9),
  };
  at::Tensor signal =
      given.fits()
          ? istft(given)
          : at::native::istft(given.values, given.n_fft, given.hop_length, given.win_length, given.window,
                              given.center, given.normalized, given.onesided, number(8), given.return_complex);
  torch::jit::drop(*stack, 10);
  stack->emplace_back(std::move(signal));
}

void take_over(torch::Library& library) {
  library.impl("stft", stft);
  library.impl("istft", torch::CppFunction::makeFromBoxedFunction<&istft_in_boxes>());
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  take_over(library);
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  take_over(library);
}

}  // namespace
}  // namespace braze::capture
