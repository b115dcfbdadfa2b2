// runtime/device/cpu/output_pool.h: memory of large results, used again by a later call.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/geometry.h"

namespace braze::runtime {

/// The system hands out large blocks page by page and takes them back when they are freed: writing 64 MB of fresh
/// memory costs as much again in page faults as the write itself. So memory of a program's large results is kept
/// once the caller has dropped them, for whichever program wants as much next: forwards and backwards run in turn,
/// and a program that has been replaced by another one leaves it its memory. All pools together keep no more
/// than what one call of each of their programs takes, and together with what is in use no more than has been in
/// use at once, so that keeping does not raise the peak; what has lain there longest is freed first. Thread-safe;
/// results may outlive the pool.
class OutputPool {
 public:
  OutputPool() = default;
  ~OutputPool();
  OutputPool(const OutputPool&) = delete;
  OutputPool& operator=(const OutputPool&) = delete;

  /// Whether a result of this many bytes is worth keeping: smaller ones the system's allocator keeps itself.
  static bool wants(int64_t bytes) { return bytes >= least_bytes; }
  /// Every call will want so many bytes more. Before the first one.
  void expect(int64_t bytes);
  /// A new uninitialised CPU tensor. \pre wants(geometry.bytes())
  at::Tensor allocate(const Geometry& geometry);
  /// Full of zeros, of memory that nobody has touched: what stays zero takes no time, and no memory before it is
  /// read or written.
  static at::Tensor allocate_zeros(const Geometry& geometry);

  /// The tensor, which ATen has just allocated, is in use as those of pools are.
  static void count(const at::Tensor& tensor);

 private:
  static constexpr int64_t least_bytes = 1 << 17;
  int64_t expected_bytes_ = 0;
};

}  // namespace braze::runtime
