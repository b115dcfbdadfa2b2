#include "support/arena.h"

#include <new>

namespace braze {

void* CountedMemory::do_allocate(size_t bytes, size_t alignment) {
  void* memory = ::operator new(bytes, std::align_val_t(alignment));
  bytes_ += bytes;
  peak_ = std::max(peak_, bytes_);
  return memory;
}

void CountedMemory::do_deallocate(void* memory, size_t bytes, size_t alignment) {
  bytes_ -= bytes;
  ::operator delete(memory, bytes, std::align_val_t(alignment));
}

Arena::~Arena() {
  for (const Block& block : blocks_)
    if (block.memory)  // The last one has none if there was no memory for it.
      blocks_.get_allocator().resource()->deallocate(block.memory, block.bytes, alignof(std::max_align_t));
}

void* Arena::take_from_new_block(size_t bytes) {
  const size_t size = std::max(bytes, std::clamp(held_ / 4, fewest_bytes, most_bytes));
  Block& block = blocks_.emplace_back();  // First, so that no memory is lost if there is none for the list.
  block = {static_cast<std::byte*>(blocks_.get_allocator().resource()->allocate(size, alignof(std::max_align_t))),
           size};
  unused_ += end_ - at_;
  held_ += size;
  at_ = block.memory + bytes;
  end_ = block.memory + size;
  return block.memory;
}

}  // namespace braze
