// loops/schedule/gpu/product.h: products of few rows, which read their weights once and do little else.
//
// cuBLAS has tiles of 32 rows and more: eight rows of f32 take it 19 us where the weights of 9 MB come out of
// memory in
// 3. What generates one token at a time, or answers one user, is made of such products.
#pragma once

#include "loops/schedule/schedule.h"

namespace braze::loops {

/// A matrix product on a GPU, with or without a row added, that a kernel of ours computes: in f32, bf16 or f16,
/// added up in f32 as eager does. Shapes [M,K] x [K,N]: M is at most 16, fewer for narrow types and rows of
/// weights; N and K may be expressions.
bool is_product_of_few_rows(const ir::Node& node, const Facts& facts);

/// Its kernel. Operands may have any strides; those of weights say which of two forms it has (product.cpp).
KernelDraft build_product(const ir::Node& node, const Facts& facts);

}  // namespace braze::loops
