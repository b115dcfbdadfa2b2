// runtime/program_layouts.h: a program with convolutions, lowered for the layout that suits them.
//
// Which one is said by a model of what has to be moved (convolution_layout.h), before the first call: measuring
// both would make users wait for a second compilation, and for calls in the slower layout. Eager's layouts are
// lowered besides only when settings change to what asks for them.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/convolution_layout.h"
#include "runtime/program_impl.h"

namespace braze::runtime {

class Program::Layouts {
 public:
  /// Null if eager's layouts are the right ones, or nothing could be laid out otherwise. `first` is not built yet.
  static std::unique_ptr<Layouts> of(const Impl& first);

  /// What to build the first Impl with.
  const loops::LayoutOverrides& first_overrides() const { return channels_last_; }
  /// Takes the first Impl, built. Program keeps it alive.
  void set_first(const Impl& first);

  /// One call. Thread-safe.
  void run(const at::Tensor* const* arguments, at::Tensor* results);
  /// What ran last, for telling about it.
  const Impl& current() const { return *current_.load(std::memory_order_acquire); }

  explicit Layouts(loops::LayoutOverrides channels_last) : channels_last_(std::move(channels_last)) {}

 private:
  const Impl& as_traced();  ///< Lowers it now if that has not been done.

  const loops::LayoutOverrides channels_last_;
  const Impl* first_ = nullptr;
  std::atomic<const Impl*> current_{nullptr}, traced_{nullptr};
  std::mutex building_;  ///< Protects second_.
  std::unique_ptr<Impl> second_;
};

}  // namespace braze::runtime
