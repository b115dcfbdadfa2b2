// support/allocations.h: how much memory a thread asks the heap for. Always on: a count costs two additions.
//
// Counted are operator new, malloc, calloc and realloc where braze's libraries call them, LLVM inside included: the
// linker sends those calls through src/allocation_hooks.cpp, which passes them on to the process's own allocator.
// Not counted is what other libraries ask for on braze's behalf: PyTorch, CPython, and libstdc++ for long
// std::strings.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braze {

/// Blocks and bytes asked for. What is freed again is not taken off: this measures work, not what is held.
struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;

  Allocations& operator+=(const Allocations& other) {
    count += other.count;
    bytes += other.bytes;
    return *this;
  }
  Allocations operator-(const Allocations& other) const { return {count - other.count, bytes - other.bytes}; }
  bool operator==(const Allocations&) const = default;
};

/// Of this thread since it began, and of those that it has adopted.
Allocations thread_allocations() noexcept;

/// Adds a block of `bytes` to this thread.
void count_allocation(size_t bytes) noexcept;

/// Adds what a helper thread, which has ended, asked for in this one's service.
void adopt_allocations(const Allocations& helper) noexcept;

}  // namespace braze
