// python/interpreter/raising_branches.h: branches of which one way does nothing but raise.
//
//   assert x.min() > 0, f"{x.min()} is too small"
//   if not constraint.check(value).all(): raise ValueError(...)
//
// Whoever cannot know the condition may take it that the way that goes on is taken, if what raises is found out,
// and run again, where it was not.
#pragma once

#include <optional>

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

/// Of a conditional jump at `offset`: the truth of its condition with which the code goes on, where every path of
/// the other way ends in a `raise` that no handler of this code catches. Nothing for all other instructions. Throws
/// std::bad_alloc as instruction_at() does.
std::optional<bool> truth_that_goes_on(PyCodeObject* code, int offset);

}  // namespace braze::interpreter
