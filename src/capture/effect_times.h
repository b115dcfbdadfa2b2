// capture/effect_times.h: does autograd save something after the last thing that a trace does beside computing?
//
// A checkpoint runs a function a second time, and ends it where autograd saves the last tensor. A program does all
// that it does before it saves anything. The two are one where the last write to a tensor from outside, or draw of
// a random number, comes before something that is saved.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braze::capture {

class EffectTimes {
 public:
  /// While it lives, effects of traces on this thread are noted.
  EffectTimes();
  ~EffectTimes();
  EffectTimes(const EffectTimes&) = delete;
  EffectTimes& operator=(const EffectTimes&) = delete;
  static EffectTimes* current();

  /// By autograd's count of its nodes.
  void note_effect();
  /// A node of autograd's has saved a tensor. Of the backward of the trace, when all effects are noted.
  void note_saving(uint64_t sequence_number) { saves_since_ |= sequence_number >= last_effect_; }
  /// Nothing happens after the last of what is saved.
  bool saves_since() const { return last_effect_ == 0 || saves_since_; }

 private:
  EffectTimes* const outer_;
  uint64_t last_effect_ = 0;  ///< Nodes that are made after it have this number or a later one; 0: there is none.
  bool saves_since_ = false;
};

}  // namespace braze::capture
