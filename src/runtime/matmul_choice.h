// runtime/matmul_choice.h: which library multiplies matrices of a size fastest on this machine, by measurement.
//
// No rule of thumb holds: on one core of a Zen 5, 128 x 768 x 768 takes MKL 1,690 us and oneDNN 750, on Intel's
// processors MKL often wins, and with few rows both lose against reading the matrix in place.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <string_view>

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

/// What decides about speed; contents do not.
struct MatmulShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  bool bias = false;

  /// Sizes that differ by less than an eighth share a measurement.
  Hash128 bucket(MatmulMethods methods, int threads) const;
};

/// The measurement of one bucket, shared by all programs of the process and, once made, by all processes through
/// cache::DiskCache. Methods take turns on real calls until each has a few times; a method twice as slow as the
/// best leaves early. Thread-safe.
class MatmulChoice {
 public:
  /// The entry of the bucket; lives as long as the process.
  static MatmulChoice& of(const MatmulShape& shape, MatmulMethods methods, int threads, bool use_disk_cache);

  int threads() const { return threads_; }
  bool decided() const { return decided_.load(std::memory_order_acquire) != undecided; }
  /// The method for the next call; to be measured unless decided().
  MatmulMethod next();
  /// One call took so long. \pre it succeeded.
  void record(MatmulMethod method, int64_t nanoseconds);
  /// The method refused such operands: never again.
  void exclude(MatmulMethod method);

  MatmulChoice(const Hash128& key, MatmulMethods methods, int threads, bool use_disk_cache);

 private:
  static constexpr uint8_t undecided = 255;
  struct Timing {
    int samples = 0;
    int64_t best = INT64_MAX;
  };
  void settle();

  const Hash128 key_;
  const int threads_;
  const bool use_disk_cache_;
  std::atomic<uint8_t> decided_{undecided};
  std::mutex mutex_;  ///< Protects the rest.
  MatmulMethods left_;
  std::array<Timing, matmul_method_count> timings_;
};

}  // namespace braze::runtime
