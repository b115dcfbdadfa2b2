// runtime/device/cuda/status.h: where kernels of a program say that an index was out of range.
#pragma once

#include <cstdint>

namespace braze::runtime {

/// A word of page-locked memory, which the GPU writes and the host reads without waiting. It is never given back: a
/// kernel that still runs when its program dies may write it.
class StatusWord {
 public:
  StatusWord();
  int64_t* address() const { return word_; }
  /// What was written since the last time; 0: nothing.
  int64_t take() const;

 private:
  int64_t* word_;
};

}  // namespace braze::runtime
