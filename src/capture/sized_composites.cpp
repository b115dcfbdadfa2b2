#include "capture/sized_composites.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/arguments.h"
#include "capture/shapes.h"
#include "capture/size_node.h"
#include "capture/sized_forms.h"
#include "capture/tracer_tensor.h"

namespace braze::capture {
namespace {

using Tensors = std::vector<at::Tensor>;
using Expressions = std::vector<c10::SymInt>;
using Arguments = FormArguments;
using Form = FormResult (*)(Arguments arguments);

/// A number that sizes decide, as a tensor without dimensions.
at::Tensor count_of(const c10::SymInt& size, const at::Tensor& beside) {
  return at::full({}, c10::Scalar(size), beside.options().dtype(at::kLong));
}

/// Of both, dimension by dimension, what is not 1; nullopt where they do not go together.
std::optional<Expressions> broadcast(const Expressions& one, const Expressions& other) {
  Expressions all;
  for (size_t k = 0; k < one.size(); ++k) {
    const bool is_wider = one[k] == 1;
    if (!is_wider && other[k] != 1 && one[k] != other[k]) return std::nullopt;
    all.push_back(is_wider ? other[k] : one[k]);
  }
  return all;
}

/// (self, indices, dim): both are as wide as the other one in all dimensions but that.
std::optional<c10::IValue> take_along_dim(Arguments arguments) {
  const at::Tensor &self = arguments[0].toTensor(), &indices = arguments[1].toTensor();
  if (!arguments[2].isInt() || self.dim() != indices.dim() || self.dim() == 0 || indices.scalar_type() != at::kLong)
    return std::nullopt;
  const int64_t dim = arguments[2].toInt();
  if (dim < -self.dim() || dim >= self.dim()) return std::nullopt;
  const auto along = static_cast<size_t>(at::maybe_wrap_dim(dim, self.dim()));
  Expressions sizes = self.sym_sizes().vec(), wanted = indices.sym_sizes().vec();
  const c10::SymInt length = std::exchange(sizes[along], wanted[along]);
  std::optional<Expressions> all = broadcast(sizes, wanted);
  if (!all) return std::nullopt;
  // Indices may count from the end.
  const at::Tensor where = indices.expand_symint(*all).remainder(count_of(length, indices));
  (*all)[along] = length;
  return self.expand_symint(*all).gather(static_cast<int64_t>(along), where);
}

/// Each element of one times all of the other.
std::optional<c10::IValue> kron(Arguments arguments) {
  const at::Tensor &self = arguments[0].toTensor(), &other = arguments[1].toTensor();
  const auto rank = static_cast<size_t>(std::max(self.dim(), other.dim()));
  Expressions outer, inner, sizes;
  const auto size = [rank](const at::Tensor& tensor, size_t k) {
    const int64_t own = static_cast<int64_t>(k) - (static_cast<int64_t>(rank) - tensor.dim());
    return own < 0 ? c10::SymInt(1) : tensor.sym_size(own);
  };
  for (size_t k = 0; k < rank; ++k) {
    outer.insert(outer.end(), {size(self, k), 1});
    inner.insert(inner.end(), {1, size(other, k)});
    sizes.push_back(size(self, k) * size(other, k));
  }
  return at::_unsafe_view_symint(
      at::mul(at::_unsafe_view_symint(self, outer), at::_unsafe_view_symint(other, inner)), sizes);
}

/// A row of blocks each, zeros around it.
std::optional<c10::IValue> block_diag(Arguments arguments) {
  const Tensors given = arguments[0].toTensorVector();
  Tensors blocks;
  c10::SymInt width = 0;
  for (const at::Tensor& tensor : given) {
    if (tensor.dim() > 2 || tensor.scalar_type() != given[0].scalar_type() || tensor.device() != given[0].device())
      return std::nullopt;
    blocks.push_back(tensor.dim() == 2 ? tensor : tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor.reshape({1, 1}));
    width += blocks.back().sym_size(1);
  }
  Tensors rows;
  c10::SymInt left = 0;
  for (const at::Tensor& block : blocks) {
    const auto zeros = [&](const c10::SymInt& count) {
      return at::zeros_symint({block.sym_size(0), count}, block.options());
    };
    const c10::SymInt right = width - left - block.sym_size(1);
    rows.push_back(at::cat({zeros(left), block, zeros(right)}, 1));
    left += block.sym_size(1);
  }
  return at::cat(rows);
}

/// A product of three matrices by the cheaper way, which is guarded, as PyTorch has it. Longer chains are
/// PyTorch's.
std::optional<c10::IValue> multi_dot(Arguments arguments) {
  Tensors all = arguments[0].toTensorVector();
  if (all.size() < 2 || all.size() > 3) return std::nullopt;
  const bool has_row = all.front().dim() == 1, has_column = all.back().dim() == 1;
  if (has_row) all.front() = all.front().unsqueeze(0);
  if (has_column) all.back() = all.back().unsqueeze(-1);
  for (const at::Tensor& one : all)
    if (one.dim() != 2 || one.scalar_type() != all[0].scalar_type()) return std::nullopt;
  at::Tensor product;
  if (all.size() == 2) {
    product = at::mm(all[0], all[1]);
  } else {
    const c10::SymInt a = all[0].sym_size(0), b = all[1].sym_size(0), c = all[2].sym_size(0),
                      d = all[2].sym_size(1);
    product = a * c * (b + d) > b * d * (a + c) ? at::mm(all[0], at::mm(all[1], all[2]))
                                                : at::mm(at::mm(all[0], all[1]), all[2]);
  }
  // A view in any case, as PyTorch gives it.
  std::vector<c10::SymInt> sizes;
  if (!has_row) sizes.push_back(product.sym_size(0));
  if (!has_column) sizes.push_back(product.sym_size(1));
  return product.view_symint(sizes);
}

/// Differences of neighbours along each dimension, in which they lie `spacing` apart.
std::optional<c10::IValue> differences(const at::Tensor& self, std::vector<c10::Scalar> spacing,
                                       std::vector<int64_t> dims, int64_t edge_order) {
  if (spacing.size() == 1) spacing.resize(dims.size(), spacing[0]);
  if (spacing.size() != dims.size() || edge_order < 1 || edge_order > 2 || self.is_complex() ||
      !self.is_floating_point())
    return std::nullopt;
  c10::List<at::Tensor> all;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] < -self.dim() || dims[k] >= self.dim()) return std::nullopt;
    const int64_t dim = at::maybe_wrap_dim(dims[k], self.dim());
    const c10::SymInt size = self.sym_size(dim);
    if (size < edge_order + 1) return std::nullopt;
    const auto part = [&](const c10::SymInt& begin, const c10::SymInt& end) {
      return self.slice_symint(dim, begin, end);
    };
    const auto row = [&](const c10::SymInt& at) { return part(at, at + 1); };
    const auto edge = [&](const at::Tensor& last, const at::Tensor& before, const at::Tensor& first) {
      return edge_order == 1 ? last - before : 1.5 * last - 2 * before + 0.5 * first;
    };
    const at::Tensor low = -edge(row(0), row(1), edge_order == 2 ? row(2) : at::Tensor()),
                     high = edge(row(size - 1), row(size - 2), edge_order == 2 ? row(size - 3) : at::Tensor());
    const at::Tensor center = (part(2, size) - part(0, size - 2)) / 2;
    all.push_back(at::cat({low, center, high}, dim) / spacing[k]);
  }
  return all;
}

std::vector<int64_t> dims_or_all(const c10::IValue& dim, const at::Tensor& self) {
  if (dim.isIntList()) return dim.toIntVector();
  if (dim.isInt()) return {dim.toInt()};
  std::vector<int64_t> all;
  for (int64_t k = 0; k < self.dim(); ++k) all.push_back(k);
  return all;
}

/// (self, spacing, dim, edge_order), where spacing is a number, a list of them or none.
std::optional<c10::IValue> gradient(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  std::vector<c10::Scalar> spacing;
  if (arguments[1].isNone())
    spacing.emplace_back(1);
  else if (arguments[1].isScalar())
    spacing.push_back(arguments[1].toScalar());
  else if (arguments[1].isList() && !arguments[1].isTensorList())
    for (const c10::IValue& one : arguments[1].toListRef()) spacing.push_back(one.toScalar());
  if (spacing.empty() || !arguments[3].isInt()) return std::nullopt;
  return differences(self, std::move(spacing), dims_or_all(arguments[2], self), arguments[3].toInt());
}

/// (self, dim, edge_order)
std::optional<c10::IValue> gradient_of_one(Arguments arguments) {
  return differences(arguments[0].toTensor(), {1}, arguments[1].toIntVector(), arguments[2].toInt());
}

/// (grad, size, align_corners): what is above each theta, (batch, 2, 3) or (batch, 3, 4). A grid of nothing moved
/// has the places that theta is multiplied with.
std::optional<c10::IValue> affine_grid_backward(Arguments arguments) {
  const at::Tensor& grad = arguments[0].toTensor();
  Expressions size;
  for (const c10::IValue& one : arguments[1].toListRef()) size.push_back(to_sym_int(dim_of(one)));
  if (size.size() != 4 && size.size() != 5) return std::nullopt;
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  c10::SymInt count = 1;
  for (size_t k = 2; k < size.size(); ++k) count = count * size[k];
  const at::Tensor still = at::eye(rank, rank + 1, grad.options()).unsqueeze(0).expand_symint({size[0], -1, -1});
  const at::Tensor grid = at::affine_grid_generator_symint(still, size, arguments[2].toBool());
  const at::Tensor places = at::cat(
      {grid.reshape_symint({size[0], count, rank}), at::ones_symint({size[0], count, 1}, grad.options())}, -1);
  return places.transpose(1, 2).bmm(grad.reshape_symint({size[0], count, rank})).transpose(1, 2);
}

/// (self, correction, fweights, aweights): of rows that are variables, or one.
std::optional<c10::IValue> cov(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const bool is_weighed = !arguments[2].isNone() || !arguments[3].isNone();
  if (is_weighed || self.dim() == 0 || self.dim() > 2 || self.scalar_type() == at::kBool || !arguments[1].isInt())
    return std::nullopt;
  at::Tensor rows = self.dim() == 2 ? self : self.unsqueeze(0);
  const c10::SymInt variables = rows.sym_size(0), observations = rows.sym_size(1);
  const int64_t correction = arguments[1].toInt();
  if (variables == 0 || observations == 0 || observations <= correction) return std::nullopt;
  const at::Tensor average = rows.sum(1).div(count_of(observations, rows));
  rows = rows - average.unsqueeze(1);
  const at::Tensor all = at::mm(rows, rows.t().conj()).div(count_of(observations - correction, rows));
  return all.squeeze();
}

/// (self)
std::optional<c10::IValue> corrcoef(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  if (self.dim() != 2 || self.is_complex() || self.sym_size(0) == 1 || self.sym_size(0) == 0) return std::nullopt;
  const at::Tensor all = at::cov(self), deviations = all.diag().sqrt();
  return (all / deviations.view({-1, 1}) / deviations.view({1, -1})).clip(-1, 1);
}

bool are_all(const c10::IValue& numbers, int64_t value) {
  return std::ranges::all_of(numbers.toListRef(), [&](const c10::IValue& one) {
    const Dim dim = dim_of(one);
    return dim.is_number() && dim.hint() == value;
  });
}

/// The dimensions, counted from the end, over which a pool without padding has one window, whatever their sizes
/// are; of the others each element is a window. Nullopt: it is another pool.
std::optional<std::vector<int64_t>> dims_of_one_window(const at::Tensor& self, int64_t rank, Arguments arguments) {
  if ((self.dim() != rank + 1 && self.dim() != rank + 2) || !self.is_floating_point()) return std::nullopt;
  const DimsRef sizes = dims_of(self);
  const auto window = arguments[1].toListRef(), steps = arguments[2].toListRef();
  if (window.empty() || !are_all(arguments[3], 0) || !(strides_of(self) == contiguous(sizes))) return std::nullopt;
  const auto each = [](auto list, size_t k) { return dim_of(list[list.size() == 1 ? 0 : k]); };
  std::vector<int64_t> dims;
  for (size_t k = 0; k < static_cast<size_t>(rank); ++k) {
    const Dim size = sizes[sizes.size() - static_cast<size_t>(rank) + k], kernel = each(window, k);
    const Dim step = steps.empty() ? kernel : each(steps, k);
    if (kernel.size() == size.size())
      dims.push_back(static_cast<int64_t>(k) - rank);
    else if (!kernel.is_number() || kernel.hint() != 1 || !step.is_number() || step.hint() != 1)
      return std::nullopt;
  }
  if (dims.empty()) return std::nullopt;
  return dims;
}

/// (self, kernel_size, stride, padding, dilation, ceil_mode). Of equal elements the first one is chosen, either
/// way.
template <int64_t rank>
std::optional<c10::IValue> largest_of_all(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const auto dims = dims_of_one_window(self, rank, arguments);
  if (!dims || !are_all(arguments[4], 1)) return std::nullopt;
  if (c10::isIntegralType(self.scalar_type(), true)) return std::nullopt;  // Not all of them have kernels.
  if (dims->size() == 1) return std::get<0>(self.max(dims->front(), /*keepdim=*/true));
  return std::get<0>(self.flatten(-rank).max(-1, /*keepdim=*/true)).unsqueeze(-1);
}

/// (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <int64_t rank>
std::optional<c10::IValue> average_of_all(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const bool divides_by_count = arguments.size() < 7 || arguments[6].isNone();
  const auto dims = divides_by_count ? dims_of_one_window(self, rank, arguments) : std::nullopt;
  if (!dims) return std::nullopt;
  return self.mean(*dims, /*keepdim=*/true);
}

/// (self, chunks, dim)
std::optional<c10::IValue> unsafe_chunk(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const int64_t chunks = arguments[1].toInt(), dim = arguments[2].toInt();
  if (chunks < 1 || dim < -self.dim() || dim >= self.dim()) return std::nullopt;
  const c10::SymInt size = self.sym_size(dim);
  if (size == 0) return std::nullopt;
  return self.unsafe_split_symint((size + (chunks - 1)) / chunks, dim);
}

/// (self, sections, dim): the first ones have an element more where they cannot all have as many.
std::optional<c10::IValue> tensor_split(Arguments arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  if (!arguments[1].isInt()) return std::nullopt;
  const int64_t sections = arguments[1].toInt(), dim = arguments[2].toInt();
  if (sections < 1 || dim < -self.dim() || dim >= self.dim()) return std::nullopt;
  const c10::SymInt size = self.sym_size(dim), each = size / sections, more = size % sections;
  Tensors parts;
  for (int64_t k = 0; k < sections; ++k)
    parts.push_back(self.slice_symint(dim, each * k + more.min(k), each * (k + 1) + more.min(k + 1)));
  return parts;
}

/// (self, other, rtol, atol, equal_nan): what is no number equals what is none, and PyTorch asks for shapes.
std::optional<c10::IValue> isclose_or_nan(Arguments arguments) {
  const at::Tensor &self = arguments[0].toTensor(), &other = arguments[1].toTensor();
  if (!arguments[2].isDouble() || !arguments[3].isDouble() || !arguments[4].isBool() || !arguments[4].toBool())
    return std::nullopt;
  const at::Tensor close = at::isclose(self, other, arguments[2].toDouble(), arguments[3].toDouble());
  if (!self.is_floating_point() && !self.is_complex()) return close;
  return close.bitwise_or_(self.isnan().bitwise_and(other.isnan()));
}

struct Row {
  std::string_view name, overload;
  Form form;
  bool takes_sizes = false;  ///< Its schema has sizes, which may be expressions.
};
constexpr Row rows[] = {
    {"aten::take_along_dim", "", take_along_dim},
    {"aten::kron", "", kron},
    {"aten::block_diag", "", block_diag},
    {"aten::linalg_multi_dot", "", multi_dot},
    {"aten::gradient", "scalarint", gradient},
    {"aten::gradient", "scalararray", gradient},
    {"aten::gradient", "scalarrayint", gradient},
    {"aten::gradient", "scalarrayarray", gradient},
    {"aten::gradient", "array", gradient_of_one},
    {"aten::affine_grid_generator_backward", "", affine_grid_backward, true},
    {"aten::cov", "", cov},
    {"aten::corrcoef", "", corrcoef},
    {"aten::max_pool1d", "", largest_of_all<1>, true},
    {"aten::max_pool2d", "", largest_of_all<2>, true},
    {"aten::avg_pool1d", "", average_of_all<1>, true},
    {"aten::avg_pool2d", "", average_of_all<2>, true},
    {"aten::unsafe_chunk", "", unsafe_chunk},
    {"aten::tensor_split", "sections", tensor_split},
    {"aten::pad_sequence", "", pad_sequence},
    {"aten::fill_diagonal_", "", fill_diagonal},
    {"aten::ctc_loss", "IntList", ctc_loss_of_sizes, true},
    {"aten::isclose", "", isclose_or_nan},
    {"aten::linalg_matrix_norm", "", matrix_norm_by_number},
    {"aten::linalg_matrix_norm", "str_ord", matrix_norm_by_name},
};

}  // namespace

bool open_sized_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::OperatorName& name = op.operator_name();
  const auto row = std::ranges::find_if(
      rows, [&](const Row& one) { return one.name == name.name && one.overload == name.overload_name; });
  if (row == std::end(rows)) return false;
  const size_t count = op.schema().arguments().size();
  const Arguments arguments(stack->data() + stack->size() - count, count);
  bool any = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    any |= as_tracer(tensor) && !dims_of(tensor).is_numbers();
  });
  if (!any || (!row->takes_sizes && std::ranges::any_of(arguments, has_symbols))) return false;
  std::optional<c10::IValue> result = row->form(arguments);
  if (!result) return false;
  torch::jit::drop(*stack, count);
  stack->push_back(*std::move(result));
  return true;
}

}  // namespace braze::capture
