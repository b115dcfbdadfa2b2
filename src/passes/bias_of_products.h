// passes/bias_of_products.h: on a GPU a kernel that reads a product of f32 anyway adds its bias, too.
//
// Why: cuBLAS computes a product alone, PyTorch's addmm by cuBLASLt, whose kernels for f32 are slower where sums
// are long or rows many: 1024x3072x768 takes 155 us with a bias and 117 without on an H100, 1024x768x768 44 and 40.
// Fused into a kernel, the addition costs nothing.
//   before                                                  after
//   %0 = addmm %bias, %a, %b : f32[1024,768]@cuda:0         %0 = mm %a, %b : f32[1024,768]@cuda:0
//   %1 = add %0, %x : f32[1024,768]@cuda:0                  %1 = add %0, %bias : f32[1024,768]@cuda:0
//                                                           %2 = add %1, %x : f32[1024,768]@cuda:0
// Leaves alone: products that a library call or nobody but the caller reads, few rows (there addmm is the faster
// one), and half types, whose product would be rounded twice.
#pragma once

#include "ir/graph.h"

namespace braze::passes {

void bias_of_products(ir::Graph& graph);

}  // namespace braze::passes
