// capture/changed_switches.h: switches of the process that operators ask for when they run, and that a trace
// changes.
//
// A program runs under the switches that hold when its trace begins. An operator that comes behind a change, and
// that would do something else then, ends the graph; the next one begins under the new ones.
#pragma once

#include <ATen/Context.h>

namespace braze::capture {

/// Whether algorithms must be deterministic, and whether others are only warned of.
struct Determinism {
  bool is_wanted = at::globalContext().deterministicAlgorithms();
  bool warns_only = at::globalContext().deterministicAlgorithmsWarnOnly();
  bool operator==(const Determinism&) const = default;
};

/// While it lives on a thread, has_changed() is about what it found.
class SwitchesAtBegin {
 public:
  SwitchesAtBegin() : outer_(current_) { current_ = this; }
  ~SwitchesAtBegin() { current_ = outer_; }
  SwitchesAtBegin(const SwitchesAtBegin&) = delete;
  SwitchesAtBegin& operator=(const SwitchesAtBegin&) = delete;

  static bool has_changed() { return current_ && current_->determinism_ != Determinism(); }

 private:
  static inline thread_local const SwitchesAtBegin* current_ = nullptr;
  const Determinism determinism_;
  const SwitchesAtBegin* const outer_;
};

}  // namespace braze::capture
