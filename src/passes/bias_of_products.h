// passes/bias_of_products.h: on a GPU a kernel that reads a product of f32 anyway adds its bias, too.
//
// Why: cuBLAS computes a product alone, PyTorch's addmm by cuBLASLt, whose kernels for f32 are rarely faster and
// often slower, with weights that come out of memory: 8x3072x768 takes 31 us with a bias and 19 without on an H200,
// 32x768x2304 28 and 13, 256x768x768 25 and 15. Fused into a kernel, the addition costs nothing.
//   before                                                  after
//   %0 = addmm %bias, %a, %b : f32[1024,768]@cuda:0         %0 = mm %a, %b : f32[1024,768]@cuda:0
//   %1 = add %0, %x : f32[1024,768]@cuda:0                  %1 = add %0, %bias : f32[1024,768]@cuda:0
//                                                           %2 = add %1, %x : f32[1024,768]@cuda:0
// Leaves alone: products that a library call or nobody but the caller reads, single rows, and half types, whose
// product would be rounded twice.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void bias_of_products(ir::Graph& graph);

}  // namespace braze::passes
