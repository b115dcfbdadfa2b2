#include "capture/shapes.h"

#include <ATen/ExpandUtils.h>
#include <c10/core/DefaultDtype.h>

#include <numeric>

namespace braze::capture {
namespace {

using c10::ScalarType;

ScalarType promote_known(ScalarType a, ScalarType b) {
  if (a == ScalarType::Undefined) return b;
  if (b == ScalarType::Undefined) return a;
  return c10::promoteTypes(a, b);
}

ScalarType combine(ScalarType higher, ScalarType lower) {
  if (c10::isComplexType(higher)) return higher;
  if (c10::isFloatingType(higher)) return c10::isComplexType(lower) ? c10::toComplexType(higher) : higher;
  if (higher == ScalarType::Bool || c10::isFloatingType(lower) || c10::isComplexType(lower))
    return promote_known(higher, lower);
  return higher != ScalarType::Undefined ? higher : lower;
}

ScalarType default_dtype() {
  return c10::typeMetaToScalarType(c10::get_default_dtype());
}

/// Do all operands have the result's sizes and the same plain layout? Then the result has it too.
std::optional<Sizes> common_layout(std::span<const Layout> operands, DimsRef sizes) {
  bool all_contiguous = true, all_channels_last = sizes.size() == 4 || sizes.size() == 5, all_same = true;
  const Sizes rows = contiguous(sizes);
  const auto differs = [&](DimsRef strides, const Sizes& wanted) {
    for (size_t k = 0; k < sizes.size(); ++k)
      if (sizes[k] != 1 && strides[k] != wanted[k]) return true;
    return false;
  };
  Sizes last;
  if (all_channels_last)
    last = format_strides(sizes,
                          sizes.size() == 4 ? c10::MemoryFormat::ChannelsLast : c10::MemoryFormat::ChannelsLast3d);
  for (const Layout& operand : operands) {
    if (operand.sizes != sizes) return std::nullopt;
    all_contiguous &= is_empty(sizes) || !differs(operand.strides, rows);
    all_channels_last = all_channels_last && !differs(operand.strides, last);
    all_same &= operand.strides == operands[0].strides;
  }
  if (all_contiguous) return rows;
  if (all_channels_last) return last;
  if (all_same && is_dense(sizes, operands[0].strides))
    return Sizes(operands[0].strides.begin(), operands[0].strides.end());
  return std::nullopt;
}

/// Dense strides in the order of the strides that are given. Source: at::infer_dense_strides.
Sizes dense_strides(DimsRef sizes, DimsRef strides) {
  Places order(sizes.size());  // order[0] is the innermost dimension.
  std::iota(order.rbegin(), order.rend(), 0);
  const auto should_swap = [&](int64_t a, int64_t b) {
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return sizes[a] > sizes[b] ? 1 : 0;
  };
  for (size_t i = 1; i < order.size(); ++i)
    for (size_t inner = i, j = i; j-- > 0;) {
      const int comparison = should_swap(order[j], order[inner]);
      if (comparison > 0)
        std::swap(order[j], order[inner]), inner = j;
      else if (comparison < 0)
        break;
    }
  Sizes dense(sizes.size());
  Dim next = 1;
  for (const int64_t k : order) {
    dense[k] = next;
    if (sizes[k] > 1) next *= sizes[k];
  }
  return dense;
}

}  // namespace

void Promotion::add(ScalarType dtype, Rank rank) {
  if (rank == Rank::number) {
    if (c10::isComplexType(dtype)) dtype = c10::toComplexType(default_dtype());
    if (c10::isFloatingType(dtype)) dtype = default_dtype();
  }
  ScalarType& mine = by_rank_[static_cast<int>(rank)];
  mine = promote_known(mine, dtype);
}

ScalarType Promotion::result() const {
  return combine(by_rank_[0], combine(by_rank_[1], by_rank_[2]));
}

bool broadcast_into(Sizes& sizes, DimsRef other) {
  if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), 1);
  const size_t shift = sizes.size() - other.size();
  for (size_t k = 0; k < other.size(); ++k) {
    Dim& mine = sizes[shift + k];
    if (mine == other[k] || other[k] == 1) continue;
    if (mine != 1) return false;
    mine = other[k];
  }
  return true;
}

Sizes contiguous(DimsRef sizes) {
  Sizes strides(sizes.size());
  Dim next = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = next;
    next *= larger(sizes[k], 1);
  }
  return strides;
}

bool is_row_major(DimsRef sizes, DimsRef strides) {
  const Sizes rows = contiguous(sizes);
  if (is_empty(sizes)) return true;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != 1 && strides[k] != rows[k]) return false;
  return true;
}

bool has_strides_of_rows(DimsRef sizes, DimsRef strides) {
  const auto is_same = [](Dim a, Dim b) { return a.size() == b.size(); };
  return std::ranges::equal(strides, contiguous(sizes), is_same);
}

Dim numel(DimsRef sizes) {
  Dim all = 1;
  for (const Dim size : sizes) all *= size;
  return all;
}

bool is_empty(DimsRef sizes) {
  return std::ranges::any_of(sizes, [](Dim size) { return size == 0; });
}

bool is_dense(DimsRef sizes, DimsRef strides) {
  if (is_empty(sizes)) return true;  // An empty tensor counts as contiguous, whatever its strides.
  Places order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (sizes[a] < 2) return false;
    if (sizes[b] < 2) return true;
    return strides[a] < strides[b];
  });
  Dim next = 1;
  for (const int64_t k : order) {
    if (sizes[k] < 2) return true;
    if (strides[k] != next) return false;
    next *= sizes[k];
  }
  return true;
}

Sizes preserved_strides(DimsRef sizes, DimsRef strides) {
  if (is_dense(sizes, strides)) return {strides.begin(), strides.end()};
  if (sizes.is_numbers() && strides.is_numbers()) {
    const std::vector<int64_t> dense = at::infer_dense_strides(sizes, strides);
    return {dense.begin(), dense.end()};
  }
  return dense_strides(sizes, strides);
}

Sizes packed_strides(DimsRef sizes, c10::IntArrayRef like) {
  Places order(sizes.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int64_t>(order.size() - k - 1);
  const auto is_one = [&](int64_t k) { return sizes[static_cast<size_t>(k)].is_surely(1); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int64_t mine = like[static_cast<size_t>(a)], other = like[static_cast<size_t>(b)];
    return mine != other ? mine < other
                         : is_one(a) && !is_one(b);  // A batch of one may have the stride of its rows.
  });
  Sizes strides(sizes.size());
  Dim next = 1;
  for (const int64_t k : order) {
    strides[static_cast<size_t>(k)] = next;
    next *= larger(sizes[static_cast<size_t>(k)], 1);
  }
  return strides;
}

Sizes format_strides(DimsRef sizes, c10::MemoryFormat format) {
  if (format == c10::MemoryFormat::ChannelsLast || format == c10::MemoryFormat::ChannelsLast3d) {
    // Channels vary fastest, then the rest as in rows; a 3-dimensional image has no batch.
    const size_t rank = sizes.size(), channels = rank - (format == c10::MemoryFormat::ChannelsLast ? 3 : 4);
    Sizes strides(rank);
    strides[channels] = 1;
    Dim next = larger(sizes[channels], 1);
    for (size_t k = rank; k-- > channels + 1;) {
      strides[k] = next;
      next *= larger(sizes[k], 1);
    }
    if (channels > 0) strides[0] = next;
    return strides;
  }
  return contiguous(sizes);
}

Sizes iterator_strides(std::span<const Layout> operands, DimsRef sizes) {
  if (auto common = common_layout(operands, sizes)) return *common;
  const size_t rank = sizes.size();
  // Strides of operand k in the broadcast shape.
  const auto stride = [&](const Layout& operand, int64_t dim) -> Dim {
    const int64_t shift = static_cast<int64_t>(rank - operand.sizes.size());
    if (dim < shift) return 0;
    return operand.sizes[dim - shift] == 1 && sizes[dim] != 1 ? Dim(0) : operand.strides[dim - shift];
  };
  // order[0] is the innermost dimension. Insertion sort with ambiguous comparisons, as in the source.
  Places order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  const auto should_swap = [&](int64_t a, int64_t b) {
    for (const Layout& operand : operands) {
      const Dim x = stride(operand, a), y = stride(operand, b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (size_t i = 1; i < rank; ++i) {
    size_t inner = i;
    for (size_t j = i; j-- > 0;) {
      const int comparison = should_swap(order[j], order[inner]);
      if (comparison > 0) {
        std::swap(order[j], order[inner]);
        inner = j;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  bool reversed = true;
  for (size_t k = 0; k < rank; ++k) reversed &= order[k] == static_cast<int64_t>(rank - k - 1);
  if (reversed) return contiguous(sizes);
  Sizes strides(rank);
  Dim next = 1;
  for (size_t k = 0; k < rank; ++k) {
    strides[order[k]] = next;
    next *= sizes[order[k]];
  }
  return strides;
}

std::optional<int64_t> wrap(int64_t dim, int64_t rank) {
  const int64_t limit = std::max<int64_t>(rank, 1);
  if (dim < -limit || dim >= limit) return std::nullopt;
  return dim < 0 ? dim + limit : dim;
}

std::optional<Sizes> inferred_sizes(DimsRef asked, Dim elements) {
  Sizes sizes(asked.begin(), asked.end());
  Dim others = 1;
  Dim* open = nullptr;
  for (Dim& size : sizes) {
    if (size == -1) {
      if (open) return std::nullopt;
      open = &size;
    } else if (size < 0) {
      return std::nullopt;
    } else {
      others *= size;
    }
  }
  others = whole(others);
  if (!open) return others == elements ? std::optional(std::move(sizes)) : std::nullopt;
  if (others == 0) return std::nullopt;
  // Exact as an expression: a quotient of what is known to be a product.
  if (others.is_surely(1)) {
    *open = elements;
    return sizes;
  }
  if (elements % others != 0) return std::nullopt;
  *open = elements / others;
  return sizes;
}

/// A view cuts runs of dimensions that lie one after the other into others. Source: at::detail::computeStride.
std::optional<Sizes> view_strides(DimsRef sizes, DimsRef strides, DimsRef wanted) {
  Sizes result(wanted.size(), 1);
  if (sizes.empty()) return result;
  if (is_empty(sizes)) {
    if (sizes == wanted) return Sizes(strides.begin(), strides.end());
    for (size_t k = wanted.size(); k-- > 0;)
      result[k] = k + 1 == wanted.size() ? Dim(1) : larger(wanted[k + 1], 1) * result[k + 1];
    return result;
  }
  auto view = static_cast<int64_t>(wanted.size()) - 1;
  Dim base = strides.back(), run = 1, filled = 1;
  for (auto k = static_cast<int64_t>(sizes.size()) - 1; k >= 0; --k) {
    run *= sizes[k];
    const bool ends = k == 0 || (sizes[k - 1] != 1 && strides[k - 1] != run * base);
    if (!ends) continue;
    while (view >= 0 && (wanted[view] == 1 || filled < run)) {
      result[view] = filled * base;
      filled *= wanted[view];
      --view;
    }
    if (filled != run) return std::nullopt;
    if (k == 0) break;
    base = strides[k - 1];
    run = 1;
    filled = 1;
  }
  return view == -1 ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace braze::capture
