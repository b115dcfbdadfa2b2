// support/memory_reserve.h: memory kept back for code that must not run out of it half way.
//
// LLVM is built without exceptions: a bad_alloc that passes through it leaves locks held and function-local statics
// "being initialised" for ever, so that later compilations fail or wait for good. So address space is reserved
// before LLVM is entered, where lack of memory can still be told in order, and given back to the heap when an
// allocation of that thread fails.
#pragma once

#include <cstddef>

namespace braze {

/// While it lives, an allocation of this thread that fails takes from the reserve. Reserves nest: inner ones add
/// nothing. Costs two system calls; the pages are never touched.
class MemoryReserve {
 public:
  /// Throws std::bad_alloc if the system has not so much.
  explicit MemoryReserve(size_t bytes);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

 private:
  bool is_outermost_;
};

/// Gives the thread's reserve to the heap. False: there is none (any more).
bool release_memory_reserve() noexcept;

/// Tests: this thread's allocations by braze's libraries fail, once, after `count` more; negative: never.
void fail_allocation_after(long count) noexcept;
/// Counts down; true where the allocation is to fail.
bool allocation_is_to_fail() noexcept;

}  // namespace braze
