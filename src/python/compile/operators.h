// python/compile/operators.h: how many operators of a call ran compiled, and how many natively.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>

namespace braze::python {

/// Counts the operators that this thread calls while it lives, but for views and those that other operators or
/// programs call. Nests: the inner one counts.
class NativeOperators {
 public:
  NativeOperators();
  ~NativeOperators();
  NativeOperators(const NativeOperators&) = delete;
  NativeOperators& operator=(const NativeOperators&) = delete;

  int64_t count() const;

  /// While it lives nothing is counted: captures and programs call operators of their own.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };

 private:
  int64_t outer_count_;
  int outer_depth_;
  at::CallbackHandle handle_;
};

}  // namespace braze::python
