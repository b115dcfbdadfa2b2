// support/phases.h: how long every phase of a compilation took. Always on: a phase costs two clock reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace braze {

/// Wall-clock nanoseconds by phase, in the order in which phases first began. A phase entered twice adds up.
/// Phases named "a/b" are parts of "a" and not counted again in total().
class PhaseTimes {
 public:
  struct Row {
    std::string name;
    int64_t nanoseconds = 0;
    int64_t entered = 0;
  };
  void add(const char* name, int64_t nanoseconds);
  const std::vector<Row>& rows() const { return rows_; }
  int64_t total() const;

 private:
  std::vector<Row> rows_;
};

/// Times its own lifetime into `times` (which may be null).
///   { PhaseTimer timer(times, "passes"); run_passes(graph); }
class PhaseTimer {
 public:
  PhaseTimer(PhaseTimes* times, const char* name) : times_(times), name_(name), start_(Clock::now()) {}
  ~PhaseTimer() {
    if (times_)
      times_->add(name_, std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count());
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  PhaseTimes* times_;
  const char* name_;
  Clock::time_point start_;
};

}  // namespace braze
