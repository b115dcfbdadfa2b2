#include "support/memory_reserve.h"

#include <sys/mman.h>

#include <mutex>
#include <new>

namespace braze {

namespace {

thread_local void* reserved = nullptr;
thread_local size_t reserved_bytes = 0;
thread_local bool is_inside = false;
thread_local long allocations_left = -1;

std::new_handler previous_handler = nullptr;

/// Of `operator new` wherever it is called from, libstdc++'s own strings included.
void give_way() {
  if (release_memory_reserve()) return;
  if (previous_handler) return previous_handler();
  throw std::bad_alloc();
}

}  // namespace

MemoryReserve::MemoryReserve(size_t bytes) : is_outermost_(!is_inside) {
  if (!is_outermost_) return;
  static std::once_flag once;
  std::call_once(once, [] { previous_handler = std::set_new_handler(give_way); });
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  reserved = memory;
  reserved_bytes = bytes;
  is_inside = true;
}

MemoryReserve::~MemoryReserve() {
  if (!is_outermost_) return;
  release_memory_reserve();
  is_inside = false;
}

bool release_memory_reserve() noexcept {
  if (!reserved) return false;
  munmap(reserved, reserved_bytes);
  reserved = nullptr;
  return true;
}

void fail_allocation_after(long count) noexcept {
  allocations_left = count;
}

bool allocation_is_to_fail() noexcept {
  // A failure within a reserve is made good by it, as a real one would be.
  return allocations_left >= 0 && allocations_left-- == 0 && !release_memory_reserve();
}

}  // namespace braze
