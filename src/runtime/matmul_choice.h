// runtime/matmul_choice.h: which library multiplies matrices of a size fastest: by experience, so that one input
// gives the same bits on every call and in every process, or by measurement where that is asked for
// (mode="max-autotune").
//
// On one core of a Zen 5, 128 x 768 x 768 takes MKL 1,690 us, oneDNN 750 and panels 690; on Intel's processors MKL
// often wins; with few rows all lose against reading the matrix in place.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>

#include "runtime/choice.h"
#include "support/hash.h"

namespace braze::runtime {

enum class MatmulMethod : uint8_t {
  aten,    ///< What eager calls: MKL, or what the wheel was built with.
  onednn,  ///< PyTorch's oneDNN, which eager takes for f32 only if asked to.
  rows,    ///< small_matmul.h.
  panels,  ///< panel_matmul.h.
  packed,  ///< The same with a right operand that lies in panels already (packed_weights.h).
};
constexpr size_t matmul_method_count = 5;
using MatmulMethods = std::bitset<matmul_method_count>;
std::string_view name(MatmulMethod method);  ///< "onednn"
/// MKL is at its best on this processor.
bool is_intel();

/// What decides about speed; contents do not.
struct MatmulShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  bool bias = false;

  /// Sizes that differ by less than an eighth share a measurement.
  Hash128 bucket(MatmulMethods methods) const;
  /// Which of `methods` is fastest by experience.
  /// \param packs  Copies of the right operand in panels will be kept.
  MatmulMethod expected(MatmulMethods methods, bool packs = false) const;
};

/// The process's measurement of the shape's bucket; its methods are MatmulMethod's values.
ThreadedChoice& matmul_choice(const MatmulShape& shape, MatmulMethods methods, int threads, bool use_disk_cache);

}  // namespace braze::runtime
