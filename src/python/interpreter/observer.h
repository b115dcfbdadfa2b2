// python/interpreter/observer.h: what watches the evaluator.
#pragma once

#include "python/interpreter/statistics.h"
#include "python/interpreter/step.h"

namespace braze::interpreter {

struct Activation;

/// Sees every instruction of the frames of a Scope before and after it runs, and may end the evaluation.
///
/// An observer that answers false *abandons* the run before the instruction takes effect: all frames end at once,
/// without running handlers, `finally` or `with` blocks, and the call under the Scope gives an error. Whoever
/// opened the Scope asks abandoned() and drops that error. So a run whose effects so far cannot be seen from
/// outside can be given up, and repeated natively, at any instruction.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A frame of this thread begins, or a generator's goes on.
  virtual bool entered(Frame* frame) = 0;
  /// The frame has ended or is suspended.
  virtual void left(Frame* frame) = 0;
  /// `a`'s operands are on its stack.
  virtual bool before(Activation& a, int opcode, int arg) = 0;
  /// The result is on the stack, or `step` is error with the exception set.
  virtual bool after(Activation& a, int opcode, int arg, Step step) = 0;
  /// A frame, or the rest of it, would be left to CPython, where nobody watches.
  virtual bool handing_over(Handover reason) = 0;

  bool abandoned() const { return abandoned_; }
  /// Asked when another thread wants the GIL, which a watched run does not give away: true if that has gone
  /// on for long. The run may be waiting for that thread.
  bool keeps_others_waiting() { return ++times_asked_ > most_times_asked; }

 protected:
  bool abandoned_ = false;

 private:
  static constexpr int most_times_asked = 1'000'000;  // Calls and backward jumps: about a second.
  int times_asked_ = 0;
};

}  // namespace braze::interpreter
