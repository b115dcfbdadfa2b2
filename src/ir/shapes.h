// ir/shapes.h: sizes that follow from operands, shared by type inference and the passes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/size.h"

namespace braze::ir {

class SizeRules;
using Sizes = std::vector<int64_t>;
using SymbolicSizes = std::vector<Size>;

/// NumPy's broadcast of two shapes; nothing if they do not fit.
std::optional<Sizes> broadcast(std::span<const int64_t> a, std::span<const int64_t> b);
/// The same, as far as `rules` know: two sizes that may differ do not fit unless one of them is 1.
std::optional<SymbolicSizes> broadcast(std::span<const Size> a, std::span<const Size> b, const SizeRules& rules);

/// What a reduction over `dims` (non-negative, each at most once) leaves.
Sizes reduced(std::span<const int64_t> sizes, std::span<const int64_t> dims, bool keepdim);
SymbolicSizes reduced(std::span<const Size> sizes, std::span<const int64_t> dims, bool keepdim);

/// True if dims are ascending, distinct and in 0 ... rank-1.
bool ascending_dims(std::span<const int64_t> dims, int64_t rank);

/// False for what lies beyond any memory, or is expanded to as much: byte counts and indices would overflow.
bool is_addressable(std::span<const int64_t> sizes, std::span<const int64_t> strides);

}  // namespace braze::ir
