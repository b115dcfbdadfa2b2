// runtime/device/cpu/output_pool.h: memory of large results, used again by a later call.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/geometry.h"

namespace braze::runtime {

/// The system hands out large blocks page by page and takes them back when they are freed: writing 64 MB of fresh
/// memory costs as much again in page faults as the write itself. So a program keeps the memory of its large
/// results once the caller has dropped them. It never holds more than one call's results take, and frees it with
/// the program. Thread-safe; results may outlive the pool's owner.
class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  OutputPool() = default;
  ~OutputPool();
  OutputPool(const OutputPool&) = delete;
  OutputPool& operator=(const OutputPool&) = delete;

  /// Whether a result of this many bytes is worth keeping: smaller ones the system's allocator keeps itself.
  static bool wants(int64_t bytes) { return bytes >= least_bytes; }
  /// Every call will want so many bytes more.
  void expect(int64_t bytes) { limit_bytes_ += bytes; }
  /// A new uninitialised CPU tensor. \pre wants(geometry.bytes())
  at::Tensor allocate(const Geometry& geometry);

 private:
  static constexpr int64_t least_bytes = 1 << 20;
  struct Block {
    void* memory;
    int64_t bytes;
  };
  struct Lease;
  void* take(int64_t bytes);
  void give_back(Block block) noexcept;

  int64_t limit_bytes_ = 0;  ///< Never changes after the first call.
  std::mutex mutex_;         ///< Protects the rest.
  std::vector<Block> free_;
  int64_t free_bytes_ = 0;
};

}  // namespace braze::runtime
