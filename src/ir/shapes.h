// ir/shapes.h: sizes that follow from operands, shared by the verifier and the passes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace braze::ir {

using Sizes = std::vector<int64_t>;

/// NumPy's broadcast of two shapes; nothing if they do not fit.
std::optional<Sizes> broadcast(std::span<const int64_t> a, std::span<const int64_t> b);

/// What a reduction over `dims` (non-negative, each at most once) leaves.
Sizes reduced(std::span<const int64_t> sizes, std::span<const int64_t> dims, bool keepdim);

/// True if dims are ascending, distinct and in 0 ... rank-1.
bool ascending_dims(std::span<const int64_t> dims, int64_t rank);

/// False for what lies beyond any memory, or is expanded to as much: byte counts and indices would overflow.
bool is_addressable(std::span<const int64_t> sizes, std::span<const int64_t> strides);

}  // namespace braze::ir
