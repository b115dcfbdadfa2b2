// passes/number_copies.h: numbers that the CPU has and a GPU wants travel together.
//
// Why: PyTorch's operators take tensors without dimensions of the CPU beside those of a GPU, and optimizers count
// their steps there: a bias correction for each parameter. A copy takes some microseconds, however little it moves.
//   before                                     after
//   %0 = sqrt %x : f64[]                       %0 = sqrt %x : f64[]
//   %1 = sqrt %y : f64[]                       %1 = sqrt %y : f64[]
//   %2 = call %0, "aten::_to_copy" ...         %2 = cat %0, %1 : f64[2]          (each as one of [1])
//   %3 = mul %p, %2 : f32[8]@cuda:0            %3 = call %2, "aten::_to_copy" ... : f64[2]@cuda:0
//   %4 = call %1, "aten::_to_copy" ...         %4 = mul %p, the first of %3
//   %5 = mul %q, %4 : f32[8]@cuda:0            %5 = mul %q, the second
// A number that is computed behind the first copy travels later, with others like it.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void number_copies(ir::Graph& graph);

}  // namespace braze::passes
