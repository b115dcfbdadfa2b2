// runtime/product_form.h: how the operands of a product of matrices lie, for whoever computes it other than by
// ATen.
#pragma once

#include <algorithm>

#include "loops/plan.h"

namespace braze::runtime {

inline bool has_rows(const loops::View& view) {
  return view.strides.back() == 1;
}
inline bool has_columns(const loops::View& view) {
  return view.strides[view.strides.size() - 2] == 1;
}

/// A vector of n numbers in a row, added to every row.
inline bool is_row(const loops::View& bias, int64_t n) {
  int64_t numel = 1;
  for (int64_t size : bias.sizes) numel *= size;
  return numel == n && !bias.sizes.empty() && bias.sizes.back() == n && (n == 1 || bias.strides.back() == 1);
}

/// alpha and beta, where there are any, are one.
inline bool is_plain(const ir::LibraryCall& call) {
  return std::ranges::all_of(call.arguments, [](const ir::Argument& argument) {
    return argument.kind == ir::Argument::Kind::operand ||
           (argument.kind == ir::Argument::Kind::integer ? argument.integer == 1 : argument.real == 1);
  });
}

}  // namespace braze::runtime
