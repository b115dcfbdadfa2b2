// What the tests of the C++ face share.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#undef CHECK  // torch's own
#include <doctest/doctest.h>

/// Same dtype, sizes, strides and elements; floating elements up to rounding.
inline bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         at::allclose(a, b, 1e-5, 1e-6, /*equal_nan=*/true);
}
