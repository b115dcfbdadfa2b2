// passes/bounds.h: what is known about the size of a floating value.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace braze::passes {

struct Bounds {
  double low, high;  ///< Finite, low <= high.
};

/// An interval that holds every element, none of them NaN; nothing if braze cannot tell. Looks through views,
/// where, conversions, and sums and products of such.
std::optional<Bounds> bounds(const ir::Value* value);

}  // namespace braze::passes
