// loops/transposes.h: the distance of rows in a `transpose` (kernel.h).
#pragma once

#include "loops/kernel.h"

namespace braze::loops {

/// S of `transpose`: Stmt::shape says it, or Stmt::sizes where it is a symbol's.
inline Extent row_step(const Stmt& transpose) {
  return transpose.sizes.empty() ? Extent(transpose.shape[1]) : transpose.sizes[0];
}

inline void set_row_step(Stmt& transpose, const Extent& step) {
  transpose.shape[1] = step.is_constant() ? step.constant : 1;
  if (!step.is_constant()) transpose.sizes = {step};
}

}  // namespace braze::loops
