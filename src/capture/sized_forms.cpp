// Composite operators that arrange what they are given, or that are a row of sizes and one operator.
#include "capture/sized_forms.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "capture/dim.h"
#include "capture/size_node.h"

namespace braze::capture {
namespace {

/// Singular values of the matrices in two dimensions, reduced along the last: their largest or smallest one, or
/// their sum.
enum class Kept : uint8_t { largest, smallest, sum };

FormResult norm_of_singular_values(FormArguments arguments, Kept kept) {
  const at::Tensor& self = arguments[0].toTensor();
  const std::vector<int64_t> dims = arguments[2].toIntVector();
  if (!arguments[4].isNone() || dims.size() != 2 || self.dim() < 2 || !at::isFloatingType(self.scalar_type()))
    return std::nullopt;
  for (const int64_t dim : dims)
    if (dim < -self.dim() || dim >= self.dim()) return std::nullopt;
  const int64_t row = at::maybe_wrap_dim(dims[0], self.dim()), column = at::maybe_wrap_dim(dims[1], self.dim());
  if (row == column) return std::nullopt;
  if (self.sym_size(row) == 0 || self.sym_size(column) == 0) return std::nullopt;
  const at::Tensor values = at::linalg_svdvals(self.movedim({row, column}, {-2, -1}));
  at::Tensor norm = kept == Kept::sum ? values.sum(-1) : kept == Kept::largest ? values.amax(-1) : values.amin(-1);
  if (arguments[3].toBool())
    for (const int64_t dim : {std::min(row, column), std::max(row, column)}) norm = norm.unsqueeze(dim);
  return norm;
}

}  // namespace

/// One above or beside the other, each padded to the longest one's length.
FormResult pad_sequence(FormArguments arguments) {
  const std::vector<at::Tensor> sequences = arguments[0].toTensorVector();
  if (sequences.empty() || sequences[0].dim() == 0) return std::nullopt;
  const at::Tensor& first = sequences[0];
  c10::SymInt longest = first.sym_size(0);
  for (const at::Tensor& one : sequences) {
    if (one.dim() != first.dim() || one.scalar_type() != first.scalar_type() || one.device() != first.device())
      return std::nullopt;
    for (int64_t k = 1; k < one.dim(); ++k)
      if (one.sym_size(k) != first.sym_size(k)) return std::nullopt;
    longest = longest.max(one.sym_size(0));
  }
  const std::string_view side = arguments[3].toStringView();
  if (side != "right" && side != "left") return std::nullopt;
  std::vector<at::Tensor> padded;
  for (const at::Tensor& one : sequences) {
    std::vector<c10::SymInt> pads(static_cast<size_t>(2 * one.dim()), 0);
    pads[pads.size() - (side == "right" ? 1 : 2)] = longest - one.sym_size(0);
    // Of rows: how other layouts are padded depends on whether anything is added.
    padded.push_back(at::constant_pad_nd_symint(one.contiguous(), pads, arguments[2].toScalar()));
  }
  const at::Tensor batch = at::stack(padded, arguments[1].toBool() ? 0 : 1);
  // PyTorch fills it, and then writes one sequence after the other.
  for (size_t writes = 0; writes <= padded.size(); ++writes) batch.unsafeGetTensorImpl()->bump_version();
  return batch;
}

/// Two dimensions, of which the shorter one says how long the diagonal is; where it goes on below the last column,
/// its parts lie one behind the other in memory.
FormResult fill_diagonal(FormArguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  if (self.dim() != 2) return std::nullopt;
  const c10::SymInt height = self.sym_size(0), width = self.sym_size(1);
  self.diagonal().fill_(arguments[1].toScalar());
  if (arguments[2].toBool() && height > width + 1) {
    const c10::SymInt between = width + 1, row = self.sym_stride(0), column = self.sym_stride(1);
    const c10::SymInt count = (height * width + width) / between - width;
    self.slice_symint(0, between).as_strided_symint({count}, {row + column}).fill_(arguments[1].toScalar());
  }
  return self;
}

/// Lengths that are sizes, in tensors, which a call of the library reads when it runs.
FormResult ctc_loss_of_sizes(FormArguments arguments) {
  if (!has_symbols(arguments[2]) && !has_symbols(arguments[3])) return std::nullopt;
  const auto lengths = [](const c10::IValue& list) {
    std::vector<at::Tensor> parts;
    for (const c10::IValue& one : list.toListRef())
      parts.push_back(at::full({}, c10::Scalar(to_sym_int(dim_of(one))), at::kLong));
    return parts.empty() ? at::empty({0}, at::kLong) : at::stack(parts);
  };
  return at::ctc_loss(arguments[0].toTensor(), arguments[1].toTensor(), lengths(arguments[2]),
                      lengths(arguments[3]), arguments[4].toInt(), arguments[5].toInt(), arguments[6].toBool());
}

FormResult matrix_norm_by_number(FormArguments arguments) {
  if (!arguments[1].isScalar()) return std::nullopt;
  const double order = arguments[1].toScalar().toDouble();
  if (std::abs(order) != 2) return std::nullopt;
  return norm_of_singular_values(arguments, order > 0 ? Kept::largest : Kept::smallest);
}

FormResult matrix_norm_by_name(FormArguments arguments) {
  if (arguments[1].toStringView() != "nuc") return std::nullopt;
  return norm_of_singular_values(arguments, Kept::sum);
}

}  // namespace braze::capture
