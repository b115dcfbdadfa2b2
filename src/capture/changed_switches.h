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

/// While it lives on a thread, have_switches_changed() is about what it found.
class SwitchesAtBegin {
 public:
  SwitchesAtBegin();
  ~SwitchesAtBegin();
  SwitchesAtBegin(const SwitchesAtBegin&) = delete;
  SwitchesAtBegin& operator=(const SwitchesAtBegin&) = delete;

 private:
  friend bool have_switches_changed();
  const Determinism determinism_;
  const SwitchesAtBegin* const outer_;
};
bool have_switches_changed();

}  // namespace braze::capture
