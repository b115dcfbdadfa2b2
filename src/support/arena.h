// support/arena.h: memory that is given back all at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

namespace braze {

/// The system's memory, counted: for an Arena, and for containers beside it.
class CountedMemory : public std::pmr::memory_resource {
 public:
  size_t bytes() const { return bytes_; }  ///< Held now.
  size_t peak() const { return peak_; }    ///< The most that was ever held.

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  size_t bytes_ = 0, peak_ = 0;
};

/// Hands out pieces of larger blocks; no destructor of what lies in them is run. A new block has a fifth of what
/// the arena then holds, within bounds: so that at most a fifth is unused, in few blocks. (Doubling would leave up
/// to half of it unused.)
class Arena {
 public:
  /// `memory` outlives the arena.
  explicit Arena(CountedMemory& memory) : blocks_(&memory) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// Uninitialised. An empty span for no elements.
  template <typename T>
  std::span<T> allocate(size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    if (count == 0) return {};
    return {static_cast<T*>(take(count * sizeof(T), alignof(T))), count};
  }
  template <typename T>
  std::span<T> copy(std::span<const T> values) {
    const std::span<T> mine = allocate<T>(values.size());
    std::uninitialized_copy(values.begin(), values.end(), mine.begin());
    return mine;
  }
  size_t held() const { return held_; }                           ///< Bytes of all blocks.
  size_t used() const { return held_ - unused_ - (end_ - at_); }  ///< Bytes handed out, with gaps for alignment.

 private:
  struct Block {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };
  static constexpr size_t fewest_bytes = 4096, most_bytes = 1 << 20;

  void* take(size_t bytes, size_t alignment) {
    const size_t gap = -reinterpret_cast<uintptr_t>(at_) & (alignment - 1);
    if (static_cast<size_t>(end_ - at_) < bytes + gap) [[unlikely]]
      return take_from_new_block(bytes);
    std::byte* piece = at_ + gap;
    at_ = piece + bytes;
    return piece;
  }
  void* take_from_new_block(size_t bytes);

  std::pmr::vector<Block> blocks_;
  std::byte *at_ = nullptr, *end_ = nullptr;  ///< What is left of the newest block.
  size_t held_ = 0, unused_ = 0;              ///< unused_: at the ends of older blocks.
};

}  // namespace braze
