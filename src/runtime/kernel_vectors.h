// runtime/kernel_vectors.h: vectors of f32 for the kernels that are compiled for one instruction set each: these
// set BRAZE_LANES, and include nothing else (small_matmul_kernel.h says why).
#pragma once

namespace braze::runtime {

namespace {

constexpr int lanes = BRAZE_LANES;
typedef float Vector __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

inline Vector load(const float* from) {
  return *reinterpret_cast<const Vector*>(from);
}
[[maybe_unused]] inline void store(float* to, Vector value) {
  *reinterpret_cast<Vector*>(to) = value;
}

}  // namespace

}  // namespace braze::runtime
