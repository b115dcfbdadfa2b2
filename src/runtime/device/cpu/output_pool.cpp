#include "runtime/device/cpu/output_pool.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstdlib>

namespace braze::runtime {

/// What a tensor's storage holds on to.
struct OutputPool::Lease {
  std::shared_ptr<OutputPool> pool;
  Block block;
  ~Lease() { pool->give_back(block); }
};

OutputPool::~OutputPool() {
  for (const Block& block : free_) std::free(block.memory);
}

void* OutputPool::take(int64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it =
        std::find_if(free_.begin(), free_.end(), [&](const Block& block) { return block.bytes == bytes; });
    if (it != free_.end()) {
      void* memory = it->memory;
      free_.erase(it);
      free_bytes_ -= bytes;
      return memory;
    }
  }
  constexpr size_t cache_line = 64;
  void* memory = nullptr;
  if (posix_memalign(&memory, cache_line, static_cast<size_t>(bytes)) == 0) return memory;
  return c10::alloc_cpu(static_cast<size_t>(bytes));  // Raises, as eager does.
}

void OutputPool::give_back(Block block) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_bytes_ + block.bytes <= limit_bytes_) {
      free_.push_back(block);
      free_bytes_ += block.bytes;
      return;
    }
  }
  std::free(block.memory);
}

at::Tensor OutputPool::allocate(const Geometry& geometry) {
  const int64_t bytes = geometry.bytes();
  auto lease = std::make_unique<Lease>(shared_from_this(), Block{take(bytes), bytes});
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
