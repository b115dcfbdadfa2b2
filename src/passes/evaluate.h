// passes/evaluate.h: elementwise ops on single numbers, to the bit as a kernel computes them.
#pragma once

#include <optional>
#include <span>

#include "ir/graph.h"

namespace braze::passes {

/// The value of `op` on numbers of the dtype `from` (for `where`, that of the last two), as a number of the dtype
/// `to`. Nothing for ops that are not exactly rounded (exp, pow, ...), for bf16 and f16 (their scalars keep f32's
/// precision, their tensors do not), and where the result is undefined or an error (division by zero of integers,
/// conversions out of range).
std::optional<ir::Number> evaluate(ir::Op op, ir::DType from, ir::DType to, std::span<const ir::Number> numbers);

}  // namespace braze::passes
