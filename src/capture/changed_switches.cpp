// capture/changed_switches.cpp
#include "capture/changed_switches.h"

#include <utility>

namespace braze::capture {

namespace {

thread_local const SwitchesAtBegin* current = nullptr;

}  // namespace

SwitchesAtBegin::SwitchesAtBegin() : outer_(std::exchange(current, this)) {}

SwitchesAtBegin::~SwitchesAtBegin() {
  current = outer_;
}

bool have_switches_changed() {
  return current && current->determinism_ != Determinism();
}

}  // namespace braze::capture
