// runtime/device/cuda/scratch.h: memory that a kernel may write again and again while it is measured.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace braze::runtime {

/// Copies of memory of a device, made and used on one stream.
class Scratch {
 public:
  Scratch(c10::Device place, void* stream, std::span<const WrittenMemory> originals);
  /// The same place in the copy of what it lies in; other addresses are as they were.
  void* in_place_of(void* address) const;

 private:
  struct Copy {
    char* begin;
    int64_t bytes;
    char* copy;
    at::Tensor memory;
  };
  std::vector<Copy> copies_;  ///< None overlap.
};

}  // namespace braze::runtime
