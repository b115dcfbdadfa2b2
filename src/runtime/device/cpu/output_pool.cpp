#include "runtime/device/cpu/output_pool.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>

namespace braze::runtime {
namespace {

struct Block {
  void* memory;
  int64_t bytes;
};

class FreeBlocks {
 public:
  void* take(int64_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // What came last is most likely to be in the caches.
      const auto it =
          std::find_if(free_.rbegin(), free_.rend(), [&](const Block& one) { return one.bytes == bytes; });
      if (it != free_.rend()) {
        void* memory = it->memory;
        free_.erase(std::next(it).base());
        free_bytes_ -= bytes;
        return memory;
      }
    }
    constexpr size_t cache_line = 64;
    void* memory = nullptr;
    if (posix_memalign(&memory, cache_line, static_cast<size_t>(bytes)) == 0) return memory;
    return c10::alloc_cpu(static_cast<size_t>(bytes));  // Raises, as eager does.
  }

  void give_back(Block block) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(block);
    free_bytes_ += block.bytes;
    trim();
  }

  void change_limit(int64_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_bytes_ += bytes;
    trim();
  }

  /// One for the process: it is for memory that programs leave to each other. Never destroyed, as results may
  /// outlive everything else.
  static FreeBlocks& of_process() {
    static auto* const blocks = new FreeBlocks();
    // A child of a fork must not find it locked by a thread that it does not have.
    static const int told_of_forks = pthread_atfork([] { blocks->mutex_.lock(); }, [] { blocks->mutex_.unlock(); },
                                                    [] { blocks->mutex_.unlock(); });
    static_cast<void>(told_of_forks);
    return *blocks;
  }

 private:
  void trim() {
    for (; free_bytes_ > limit_bytes_; free_.pop_front()) {
      free_bytes_ -= free_.front().bytes;
      std::free(free_.front().memory);
    }
  }

  std::mutex mutex_;  ///< Protects the rest.
  int64_t limit_bytes_ = 0, free_bytes_ = 0;
  std::deque<Block> free_;  ///< The latest last.
};

/// What a tensor's storage holds on to.
struct Lease {
  Block block;
  ~Lease() { FreeBlocks::of_process().give_back(block); }
};

}  // namespace

OutputPool::~OutputPool() {
  FreeBlocks::of_process().change_limit(-expected_bytes_);
}

void OutputPool::expect(int64_t bytes) {
  expected_bytes_ += bytes;
  FreeBlocks::of_process().change_limit(bytes);
}

at::Tensor OutputPool::allocate(const Geometry& geometry) {
  const int64_t bytes = geometry.bytes();
  auto lease = std::make_unique<Lease>(Block{FreeBlocks::of_process().take(bytes), bytes});
  void* const memory = lease->block.memory;
  c10::DataPtr data(
      memory, lease.release(), [](void* held) { delete static_cast<Lease*>(held); }, c10::Device(c10::kCPU));
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                       c10::GetCPUAllocator(), /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(geometry.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides);
  return tensor;
}

}  // namespace braze::runtime
