// runtime/program_layouts.h: a program with convolutions, lowered for each layout that they may have, and the
// choice between them by measurement of whole calls.
//
// Whole calls, because a layout is worth what the convolutions gain less what copies at the edges cost and what
// kernels in between lose or gain; no sum of parts tells that as well as a clock.
//
// The first call runs what was lowered first: what the disk knows to be faster, else eager's layouts. On the second
// the other one is lowered, and the two take turns, four times each. Then the faster one stays.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/choice.h"
#include "runtime/convolution_layout.h"
#include "runtime/program_impl.h"

namespace braze::runtime {

class Program::Layouts {
 public:
  /// Null if the program has no convolution that could be laid out otherwise. `first` is not built yet.
  static std::unique_ptr<Layouts> of(const Impl& first);

  /// What to build the first Impl with.
  const loops::LayoutOverrides& first_overrides() const { return overrides(first_layout_); }
  /// Takes the first Impl, built. Program keeps it alive.
  void set_first(const Impl& first);

  /// One call. Thread-safe.
  void run(const at::Tensor* const* arguments, at::Tensor* results);
  /// What ran last, for telling about it.
  const Impl& current() const { return *current_.load(std::memory_order_acquire); }

  explicit Layouts(loops::LayoutOverrides channels_last) : channels_last_(std::move(channels_last)) {}

 private:
  const loops::LayoutOverrides& overrides(ConvolutionLayout layout) const;
  const Impl& first() const { return *built_[static_cast<size_t>(first_layout_)].load(std::memory_order_acquire); }
  /// Lowers it now if that has not been done; null if another thread is at it and `wait` is false.
  const Impl* get(ConvolutionLayout layout, bool wait);
  ThreadedChoice& choice();

  const loops::LayoutOverrides channels_last_, as_traced_;
  Hash128 key_;
  bool use_disk_cache_ = true;
  ConvolutionLayout first_layout_ = ConvolutionLayout::traced;
  std::array<std::atomic<const Impl*>, convolution_layout_count> built_{};
  std::atomic<const Impl*> current_{nullptr};
  std::atomic<bool> called_{false};
  std::atomic<ThreadedChoice*> choice_{nullptr};  ///< For the number of threads that was last seen.
  std::mutex building_;                           ///< Protects second_.
  std::unique_ptr<Impl> second_;
};

}  // namespace braze::runtime
