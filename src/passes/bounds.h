// passes/bounds.h: what is known about the numbers that a value holds.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace braze::passes {

struct Bounds {
  double low, high;  ///< Finite, low <= high.
};

/// An interval that holds every element, none of them NaN; nothing if braze cannot tell. Looks through views,
/// where, conversions, sums and products of such, and comparisons of integers, also by places (passes/affine.h).
std::optional<Bounds> bounds(const ir::Value* value);

/// Every element is this number. `arange(n) >= 0` is 1 throughout.
bool is_throughout(const ir::Value* value, double number);

}  // namespace braze::passes
