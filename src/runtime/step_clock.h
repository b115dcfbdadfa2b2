// runtime/step_clock.h: how long the steps of a program take: measured in a few of its calls, so that whoever looks
// at a program later finds it, at no cost for all other calls.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace braze::runtime {

/// Thread-safe: calls that run at the same time may be counted as one.
class StepClock {
 public:
  explicit StepClock(size_t steps) : nanoseconds_(new std::atomic<int64_t>[steps]()), steps_(steps) {}

  /// Counts a call. Whether its steps are to be measured: those of the 2nd, 3rd, 5th, 9th, 17th and 33rd are, when
  /// caches hold what the first call touched.
  bool counts_call() noexcept {
    const uint32_t before = calls_.load(std::memory_order_relaxed);
    if (before > last_measured) [[likely]]
      return false;
    calls_.store(before + 1, std::memory_order_relaxed);
    return std::has_single_bit(before);
  }
  void took(size_t step, int64_t nanoseconds) noexcept {
    std::atomic<int64_t>& best = nanoseconds_[step];
    const int64_t known = best.load(std::memory_order_relaxed);
    if (known == 0 || nanoseconds < known) best.store(nanoseconds, std::memory_order_relaxed);
  }
  /// The shortest time, in nanoseconds; 0: the step was never measured.
  int64_t best(size_t step) const noexcept { return nanoseconds_[step].load(std::memory_order_relaxed); }
  size_t steps() const noexcept { return steps_; }

 private:
  static constexpr uint32_t last_measured = 32;
  std::atomic<uint32_t> calls_{0};
  std::unique_ptr<std::atomic<int64_t>[]> nanoseconds_;
  size_t steps_;
};

}  // namespace braze::runtime
