// F.interpolate to sizes that are expressions. PyTorch's composite forms, which take sizes or factors, know numbers
// only; those that they are made of know both.
#include <ATen/ATen.h>
#include <ATen/ops/_upsample_bicubic2d_aa_native.h>
#include <ATen/ops/_upsample_bicubic2d_aa_ops.h>
#include <ATen/ops/_upsample_bilinear2d_aa_native.h>
#include <ATen/ops/_upsample_bilinear2d_aa_ops.h>
#include <ATen/ops/_upsample_nearest_exact1d_native.h>
#include <ATen/ops/_upsample_nearest_exact1d_ops.h>
#include <ATen/ops/_upsample_nearest_exact2d_native.h>
#include <ATen/ops/_upsample_nearest_exact2d_ops.h>
#include <ATen/ops/_upsample_nearest_exact3d_native.h>
#include <ATen/ops/_upsample_nearest_exact3d_ops.h>
#include <ATen/ops/upsample_bicubic2d_native.h>
#include <ATen/ops/upsample_bicubic2d_ops.h>
#include <ATen/ops/upsample_bilinear2d_native.h>
#include <ATen/ops/upsample_bilinear2d_ops.h>
#include <ATen/ops/upsample_linear1d_native.h>
#include <ATen/ops/upsample_linear1d_ops.h>
#include <ATen/ops/upsample_nearest1d_native.h>
#include <ATen/ops/upsample_nearest1d_ops.h>
#include <ATen/ops/upsample_nearest2d_native.h>
#include <ATen/ops/upsample_nearest2d_ops.h>
#include <ATen/ops/upsample_nearest3d_native.h>
#include <ATen/ops/upsample_nearest3d_ops.h>
#include <ATen/ops/upsample_trilinear3d_native.h>
#include <ATen/ops/upsample_trilinear3d_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "support/fraction.h"

namespace braze::capture {
namespace {

using SymSizes = at::OptionalSymIntArrayRef;
using Factors = std::optional<at::ArrayRef<double>>;
using Numbers = c10::SmallVector<int64_t, 3>;
using Expressions = c10::SmallVector<c10::SymInt, 3>;

bool any_expression(c10::SymIntArrayRef sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const c10::SymInt& size) { return size.is_symbolic(); });
}

/// As PyTorch rounds it. Nothing for an expression of which a multiple cannot be told exactly.
std::optional<c10::SymInt> scaled(const c10::SymInt& size, double factor) {
  if (!size.is_symbolic()) return static_cast<int64_t>(static_cast<double>(size.expect_int()) * factor);
  const std::optional<Fraction> fraction = exact_fraction(factor);
  if (!fraction) return std::nullopt;
  const c10::SymInt multiple = size * fraction->numerator;
  return fraction->denominator == 1 ? multiple : multiple / fraction->denominator;
}

/// The sizes that are asked for, by themselves or by factors, if these or other ones of the input are expressions.
std::optional<Expressions> asked_for(const at::Tensor& input, SymSizes sizes, Factors factors, size_t rank) {
  Expressions wanted;
  if (sizes) {
    wanted.assign(sizes->begin(), sizes->end());
  } else if (factors && factors->size() == rank && input.dim() == static_cast<int64_t>(rank) + 2) {
    for (size_t k = 0; k < rank; ++k) {
      const auto size = scaled(input.sym_size(static_cast<int64_t>(k) + 2), (*factors)[k]);
      if (!size) return std::nullopt;
      wanted.push_back(*size);
    }
  }
  const bool is_complete = wanted.size() == rank;
  return is_complete && (any_expression(wanted) || any_expression(input.sym_sizes())) ? std::optional(wanted)
                                                                                      : std::nullopt;
}

template <size_t rank, typename Call>
at::Tensor resized(const at::Tensor& input, SymSizes sizes, Factors factors, Call own, auto native) {
  if (const auto wanted = asked_for(input, sizes, factors, rank))
    return [&]<size_t... k>(std::index_sequence<k...>) {
      const auto factor = [&](size_t i) { return factors ? std::optional((*factors)[i]) : std::nullopt; };
      return own(c10::SymIntArrayRef(*wanted), factor(k)...);
    }(std::make_index_sequence<rank>());
  if (!sizes) return native(at::OptionalIntArrayRef());
  Numbers numbers;
  for (const c10::SymInt& size : *sizes) numbers.push_back(size.guard_int(__FILE__, __LINE__));
  return native(at::OptionalIntArrayRef(at::IntArrayRef(numbers)));
}

template <typename Op, auto native, size_t rank>
at::Tensor nearest(const at::Tensor& input, SymSizes sizes, Factors factors) {
  return resized<rank>(
      input, sizes, factors, [&](auto... arguments) { return Op::call(input, arguments...); },
      [&](at::OptionalIntArrayRef numbers) { return native(input, numbers, factors); });
}

template <typename Op, auto native, size_t rank>
at::Tensor weighed(const at::Tensor& input, SymSizes sizes, bool align_corners, Factors factors) {
  return resized<rank>(
      input, sizes, factors,
      [&](c10::SymIntArrayRef wanted, auto... scales) { return Op::call(input, wanted, align_corners, scales...); },
      [&](at::OptionalIntArrayRef numbers) { return native(input, numbers, align_corners, factors); });
}

void take_over(torch::Library& library) {
  using namespace at::_ops;  // NOLINT
  namespace kernels = at::native;
  library.impl("upsample_nearest1d.vec", nearest<upsample_nearest1d, kernels::upsample_nearest1d, 1>);
  library.impl("upsample_nearest2d.vec", nearest<upsample_nearest2d, kernels::upsample_nearest2d, 2>);
  library.impl("upsample_nearest3d.vec", nearest<upsample_nearest3d, kernels::upsample_nearest3d, 3>);
  library.impl("_upsample_nearest_exact1d.vec",
               nearest<_upsample_nearest_exact1d, kernels::_upsample_nearest_exact1d, 1>);
  library.impl("_upsample_nearest_exact2d.vec",
               nearest<_upsample_nearest_exact2d, kernels::_upsample_nearest_exact2d, 2>);
  library.impl("_upsample_nearest_exact3d.vec",
               nearest<_upsample_nearest_exact3d, kernels::_upsample_nearest_exact3d, 3>);
  library.impl("upsample_linear1d.vec", weighed<upsample_linear1d, kernels::upsample_linear1d, 1>);
  library.impl("upsample_bilinear2d.vec", weighed<upsample_bilinear2d, kernels::upsample_bilinear2d, 2>);
  library.impl("upsample_bicubic2d.vec", weighed<upsample_bicubic2d, kernels::upsample_bicubic2d, 2>);
  library.impl("upsample_trilinear3d.vec", weighed<upsample_trilinear3d, kernels::upsample_trilinear3d, 3>);
  library.impl("_upsample_bilinear2d_aa.vec",
               weighed<_upsample_bilinear2d_aa, kernels::_upsample_bilinear2d_aa, 2>);
  library.impl("_upsample_bicubic2d_aa.vec", weighed<_upsample_bicubic2d_aa, kernels::_upsample_bicubic2d_aa, 2>);
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  take_over(library);
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  take_over(library);
}

}  // namespace
}  // namespace braze::capture
