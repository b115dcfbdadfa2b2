// capture/unguarded_numbers.h: code of PyTorch's that asks for numbers and uses none of them.
#pragma once

#include <utility>

namespace braze::capture {

/// While it lives, whoever on this thread asks a size or number of the trace for its value is told any, and nothing
/// is guarded.
class UnguardedNumbers {
 public:
  UnguardedNumbers() : outer_(std::exchange(is_on, true)) {}
  ~UnguardedNumbers() { is_on = outer_; }
  UnguardedNumbers(const UnguardedNumbers&) = delete;
  UnguardedNumbers& operator=(const UnguardedNumbers&) = delete;
  static bool current() { return is_on; }

 private:
  inline static thread_local bool is_on =
      false;  // Who is asked lies below PyTorch's code, which hands nothing down.
  const bool outer_;
};

}  // namespace braze::capture
