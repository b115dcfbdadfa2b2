// torch.stft of signals whose length is an expression: PyTorch's composite form asks for numbers. The operators
// that it is made of know both.
#include <ATen/ATen.h>
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

  /// (batch, length) as (batch, frames, size).
  at::Tensor frames(const at::Tensor& signal) const {
    const c10::SymInt count = (signal.sym_size(1) - size) / hop + 1, row = signal.sym_stride(0),
                      step = signal.sym_stride(1);
    return at::as_strided_symint(signal, {signal.sym_size(0), count, size}, {row, step * hop, step});
  }
};

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
  constexpr int64_t as_it_is = 0, by_root = 1;  // ATen's fft_norm_mode.
  at::Tensor spectrum = at::_fft_r2c(weighed, {2}, normalized ? by_root : as_it_is, onesided.value_or(true));
  spectrum.transpose_(1, 2);
  return signal.dim() == 1 ? spectrum.squeeze_(0) : spectrum;
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  library.impl("stft", stft);
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  library.impl("stft", stft);
}

}  // namespace
}  // namespace braze::capture
