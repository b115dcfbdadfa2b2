// passes/round_halves.h: round to bf16 and f16 after every operator, as eager does.
//
// Why: values of half types are computed in f32, and inside of a kernel they stay there until they are stored. That
// is nearer to the true value and faster; who wants eager's bits (ProgramOptions::emulate_precision_casts) pays for
// them.
//   before                              after
//   %0 = mul %x, %y : bf16[8]           %0 = cast %x : f32[8]
//   %1 = add %0, %x : bf16[8]           %1 = cast %y : f32[8]
//                                       %2 = mul %0, %1 : f32[8]
//                                       %3 = cast %2 : bf16[8]
//                                       %4 = cast %3 : f32[8]
//                                       %5 = cast %x : f32[8]
//                                       %6 = add %4, %5 : f32[8]
//                                       %7 = cast %6 : bf16[8]
// Two things show without it, so that it is not left out there. What makes steps (floor, trunc, comparisons, order,
// remainders, conversions to integers) would turn the missing rounding into another integer: bf16 4.998 is 5, whose
// trunc is 5. All is rounded that it is made of: the backward of amax asks which elements equal the largest, and
// may compute them again from values that were rounded when they were saved; without, none might be. And what f16
// does not hold is infinite: a gradient of 70,000 is what makes a GradScaler skip a step.
// Needs: to run first, while a node is still an operator of PyTorch's, and before a joint graph is cut. Leaves:
// operators whose results are half already (relu, maximum), composites, which are opened in f32 and round their
// results, and scans and library calls, which store theirs.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void round_halves(ir::Graph& graph);
/// Only the operators whose results reach such a step, or may be too large for f16.
void round_halves_where_seen(ir::Graph& graph);
/// Likewise, before a joint graph is cut.
/// \param part  The first node of the backward, null for none; it may be another one afterwards.
void round_halves_of_joint(ir::Graph& graph, ir::Node** part);

}  // namespace braze::passes
