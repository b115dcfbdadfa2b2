// runtime/program_layouts.h: a program with convolutions, lowered for the layout that suits them.
//
// Which one is said by a model of what has to be moved (compile/convolution_layout.h), before the first call:
// measuring both would make users wait for a second compilation, and for calls in the slower layout. Eager's
// layouts are lowered besides only when settings change to what asks for them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/program_impl.h"

namespace braze::runtime {

class Program::Layouts {
 public:
  /// How convolutions are to be computed in this process, as it is now.
  static driver::Convolutions wanted();
  /// Null if `first`, which is built, computes as eager does. Program keeps `first` alive.
  static std::unique_ptr<Layouts> of(const Impl& first);

  /// One call. Thread-safe.
  void run(const at::Tensor* const* arguments, at::Tensor* results, at::Tensor* owned);
  /// What ran last, for telling about it.
  const Impl& current() const { return *current_.load(std::memory_order_acquire); }

  explicit Layouts(const Impl& first) : first_(first), current_(&first) {}

 private:
  const Impl& as_traced();  ///< Lowers it now if that has not been done.

  const Impl& first_;
  std::atomic<const Impl*> current_, traced_{nullptr};
  std::mutex building_;  ///< Protects second_.
  std::unique_ptr<Impl> second_;
};

}  // namespace braze::runtime
