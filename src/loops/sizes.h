// loops/sizes.h: lists of sizes, as lowering handles them: numbers, or expressions over symbols (ir/size.h).
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/shape_env.h"
#include "ir/size.h"

namespace braze::loops {

using ir::Size;
using ir::SizeRules;
using Sizes = std::vector<ir::Size>;

inline Sizes list_of(const ir::SizeSpan& span) {
  return {span.symbolic().begin(), span.symbolic().end()};
}

/// The numbers; throws InternalError where one is an expression.
inline std::vector<int64_t> numbers(std::span<const Size> sizes) {
  std::vector<int64_t> result;
  result.reserve(sizes.size());
  for (const Size size : sizes) result.push_back(size.constant());
  return result;
}

/// Elements of a value, for the examples: where only time is at stake.
inline int64_t elements_of(const ir::Type& type, const SizeRules& rules) {
  return rules.hint(type.symbolic_numel());
}

/// For all values of the symbols.
inline bool is_empty(std::span<const Size> sizes) {
  for (const Size size : sizes)
    if (size == 0) return true;
  return false;
}

}  // namespace braze::loops
