// passes/affine.h: integers that follow from where they lie.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braze::passes {

/// The element at index[0], index[1], ... is constant + sum of factors[dim] * index[dim]. Along a dimension of one
/// element the factor is 0.
struct Affine {
  int64_t constant = 0;
  std::vector<int64_t> factors;

  bool is_constant() const;
};

/// The form of an i64's elements, or of truth values (1 and 0) that are the same throughout; nothing if braze
/// cannot tell. Follows iota and numbers through views, slices, concatenation, advanced indexing, sums and
/// multiples, comparisons of what differs by a constant, and running sums of zeros.
///   %0 = iota : i64[5]
///   %1 = slice %0, dim=0 start=1 step=1 : i64[4]
///   %2 = slice %0, dim=0 start=0 step=1 : i64[4]
///   %3 = sub %1, %2 : i64[4]               ; 1
///   %4 = scalar value=1 : i64[]
///   %5 = ne %3, %4 : bool[4]               ; 0
std::optional<Affine> affine(const ir::Value* value);

/// a + times * b, of operands spread to one shape; nothing if numbers become large.
std::optional<Affine> affine_sum(Affine a, const Affine& b, int64_t times);

/// As an operand of an elementwise operator whose result has this rank: aligned to the right.
Affine affine_spread(const Affine& form, size_t rank);

/// What a reshape, expand, permute or slice shows of elements of this form, by its own places.
std::optional<Affine> affine_view(const ir::Node& view, const Affine& form);

}  // namespace braze::passes
