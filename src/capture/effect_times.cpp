#include "capture/effect_times.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <utility>

namespace braze::capture {
namespace {

/// Effects are noted below the dispatcher, which hands nothing down.
thread_local EffectTimes* current_times = nullptr;

}  // namespace

EffectTimes::EffectTimes() : outer_(std::exchange(current_times, this)) {}

EffectTimes::~EffectTimes() {
  current_times = outer_;
}

EffectTimes* EffectTimes::current() {
  return current_times;
}

void EffectTimes::note_effect() {
  last_effect_ = std::max<uint64_t>(1, at::sequence_number::peek());
}

}  // namespace braze::capture
