// support/phases.h: how long every phase of a compilation took and how much memory it asked for. Always on: a phase
// costs two clock reads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/allocations.h"

namespace braze {

/// Wall-clock nanoseconds and allocations by phase, in the order in which phases first ended. A phase entered twice
/// adds up.
/// Phases named "a/b" are parts of "a" and not counted again in total().
class PhaseTimes {
 public:
  struct Row {
    std::string name;
    int64_t nanoseconds = 0;
    int64_t entered = 0;
    Allocations allocations;  ///< Those of the thread that was in the phase.
  };
  void add(const char* name, int64_t nanoseconds, const Allocations& allocations = {});
  const std::vector<Row>& rows() const { return rows_; }
  int64_t total() const;
  Allocations total_allocations() const;

 private:
  std::vector<Row> rows_;
};

/// Is told of every phase as it begins and ends, on the thread that is in it.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual void begin(const char* name) noexcept = 0;
  virtual void end() noexcept = 0;

  /// Null: nobody. Set once, before the first compilation, by a library above this one that knows who listens.
  static std::atomic<PhaseObserver*> current;
};

/// Measures its own lifetime into `times` (which may be null).
///   { PhaseTimer timer(times, "passes"); run_passes(graph); }
class PhaseTimer {
 public:
  PhaseTimer(PhaseTimes* times, const char* name)
      : observer_(begin(name)),
        times_(times),
        name_(name),
        allocations_(thread_allocations()),
        start_(Clock::now()) {}
  ~PhaseTimer() {
    if (times_)
      times_->add(name_, std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count(),
                  thread_allocations() - allocations_);
    if (observer_) observer_->end();
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  static PhaseObserver* begin(const char* name) {
    PhaseObserver* const observer = PhaseObserver::current.load(std::memory_order_acquire);
    if (observer) observer->begin(name);
    return observer;
  }
  PhaseObserver* observer_;
  PhaseTimes* times_;
  const char* name_;
  Allocations allocations_;
  Clock::time_point start_;
};

}  // namespace braze
