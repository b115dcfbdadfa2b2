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

constexpr size_t cache_line = 64;

struct Block {
  void* memory;
  int64_t bytes;
};

class FreeBlocks {
 public:
  /// A block of at least that many bytes.
  Block take(int64_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // What came last is most likely to be in the caches.
      const auto it = std::find_if(free_.rbegin(), free_.rend(), [&](const Block& one) {
        return one.bytes >= bytes && one.bytes - bytes <= bytes / least_share_wasted;
      });
      if (it != free_.rend()) {
        const Block found = *it;
        free_.erase(std::next(it).base());
        free_bytes_ -= found.bytes;
        taken_bytes_ += found.bytes;
        return found;
      }
      taken_bytes_ += bytes;
      most_taken_bytes_ = std::max(most_taken_bytes_, taken_bytes_);
      trim();
    }
    void* memory = nullptr;
    if (posix_memalign(&memory, cache_line, static_cast<size_t>(bytes)) == 0) return {memory, bytes};
    try {
      return {c10::alloc_cpu(static_cast<size_t>(bytes)), bytes};  // Raises, as eager does.
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      taken_bytes_ -= bytes;
      throw;
    }
  }

  void give_back(Block block) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(block);
    taken_bytes_ -= block.bytes;
    free_bytes_ += block.bytes;
    trim();
  }

  void count_others(int64_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_bytes_ += bytes;
    most_taken_bytes_ = std::max(most_taken_bytes_, taken_bytes_);
    trim();
  }

  void change_limit(int64_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_bytes_ += bytes;
    if (bytes < 0) most_taken_bytes_ = taken_bytes_;
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
  static constexpr int64_t least_share_wasted = 16;

  void trim() {
    const int64_t most = std::min(limit_bytes_, most_taken_bytes_ - taken_bytes_);
    for (; free_bytes_ > most && !free_.empty(); free_.pop_front()) {
      free_bytes_ -= free_.front().bytes;
      std::free(free_.front().memory);
    }
  }

  std::mutex mutex_;  ///< Protects the rest.
  int64_t limit_bytes_ = 0, free_bytes_ = 0;
  int64_t taken_bytes_ = 0, most_taken_bytes_ = 0;  ///< By results, of ATen too; and the most at once.
  std::deque<Block> free_;                          ///< The latest last.
};

/// What a tensor's storage holds on to.
struct Lease {
  Block block;
  ~Lease() { FreeBlocks::of_process().give_back(block); }
};

/// Memory of another allocator, which is counted while it lives.
struct Counted {
  c10::DataPtr data;
  int64_t bytes;
  ~Counted() { FreeBlocks::of_process().count_others(-bytes); }
};

}  // namespace

OutputPool::~OutputPool() {
  FreeBlocks::of_process().change_limit(-expected_bytes_);
}

void OutputPool::expect(int64_t bytes) {
  expected_bytes_ += bytes;
  FreeBlocks::of_process().change_limit(bytes);
}

void OutputPool::count(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.has_storage() || tensor.storage().use_count() != 1) return;
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<int64_t>(storage->nbytes());
  // Of PyTorch's allocator alone: others mean something by their contexts.
  if (!wants(bytes) || storage->data_ptr().get_deleter() != c10::GetCPUAllocator()->raw_deleter()) return;
  auto counted = std::make_unique<Counted>(c10::DataPtr(), bytes);
  void* const memory = storage->_mutable_data_ptr_no_checks().get();
  counted->data = storage->set_data_ptr(c10::DataPtr());
  storage->set_data_ptr_noswap(
      {memory, counted.release(), [](void* held) { delete static_cast<Counted*>(held); }, c10::Device(c10::kCPU)});
  FreeBlocks::of_process().count_others(bytes);
}

namespace {

at::Tensor tensor_in(const Geometry& geometry, c10::DataPtr data) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), geometry.bytes(),
                                                       std::move(data), c10::GetCPUAllocator(), /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(geometry.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides);
  return tensor;
}

/// What calloc() gave, of which the tensor is the part that begins at a line of the cache.
struct Zeros {
  Zeros(void* memory, int64_t bytes) : memory(memory), bytes(bytes) {
    FreeBlocks::of_process().count_others(bytes);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() {
    FreeBlocks::of_process().count_others(-bytes);
    std::free(memory);
  }
  void* memory;
  int64_t bytes;
};

}  // namespace

at::Tensor OutputPool::allocate(const Geometry& geometry) {
  auto lease = std::make_unique<Lease>(FreeBlocks::of_process().take(geometry.bytes()));
  void* const memory = lease->block.memory;
  return tensor_in(geometry, {memory, lease.release(), [](void* held) { delete static_cast<Lease*>(held); },
                              c10::Device(c10::kCPU)});
}

at::Tensor OutputPool::allocate_zeros(const Geometry& geometry) {
  const auto bytes = static_cast<size_t>(geometry.bytes());
  size_t room = bytes + cache_line;
  void* begin = std::calloc(room, 1);
  if (!begin) return geometry.allocate().zero_();  // Raises, as eager does.
  auto zeros = std::make_unique<Zeros>(begin, geometry.bytes());
  begin = std::align(cache_line, bytes, begin, room);
  return tensor_in(geometry, {begin, zeros.release(), [](void* held) { delete static_cast<Zeros*>(held); },
                              c10::Device(c10::kCPU)});
}

}  // namespace braze::runtime
