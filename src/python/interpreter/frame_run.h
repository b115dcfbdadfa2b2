// python/interpreter/frame_run.h: frames that are run by the piece, and who runs them.
//
// A FrameDriver is asked about every frame that its thread enters while it is installed. It may leave a frame to
// CPython, or run it with a FrameRun: natively as far as the next breakpoint, under an observer for a while, with
// slots and position set by hand in between. The frame stays CPython's own all the time.
#pragma once

#include <memory>
#include <vector>

#include "python/interpreter/activation.h"

namespace braze::interpreter {

class Entered;
class Observer;

/// Decides how the frames run that a thread enters while a DriverScope is open and no Scope inside of it.
class FrameDriver {
 public:
  virtual ~FrameDriver() = default;
  /// Evaluates the frame, which is about to begin. Result and error as CPython's evaluation function.
  virtual PyObject* drive(PyThreadState* thread, Frame* frame) = 0;
};

/// While it lives, frames that this thread enters go to the driver; null: to CPython. Nests. Needs the GIL.
class DriverScope {
 public:
  explicit DriverScope(FrameDriver* driver);
  ~DriverScope();
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

 private:
  FrameDriver* outer_;
};

/// Instructions of one code object, by their offset in code units.
using Offsets = std::vector<bool>;

/// The frame at the top of the thread's stack, while it is run by the piece.
class FrameRun {
 public:
  FrameRun(PyThreadState* thread, Frame* frame);
  ~FrameRun();
  FrameRun(const FrameRun&) = delete;
  FrameRun& operator=(const FrameRun&) = delete;

  /// False: the recursion limit; an exception is set, and the frame must end with it.
  bool entered() const { return entered_; }
  Activation& activation() { return activation_; }
  Frame* frame() const { return activation_.frame; }
  PyCodeObject* code() const { return activation_.code(); }
  /// Of the next instruction, in code units from the start of the code.
  int offset() const;
  /// Values on the operand stack.
  int depth() const { return static_cast<int>(activation_.top - activation_.stack_base()); }

  /// Runs natively until just after an instruction of `breakpoints` has run, or an exception of it found a handler
  /// in this frame: gives `next`. Otherwise how the frame ended: returned, error or handover.
  Step run(const Offsets& breakpoints);
  /// The exception that is set is raised by the next instruction; then as run().
  Step run_raising(const Offsets& breakpoints);
  /// Runs under an observer until the frame ends or the observer abandons it: then the operand stack is empty, the
  /// locals are as they were left, and an error is set.
  Step run(Observer& observer);

  /// What a frame holds. Slots are its locals, cells and free variables, then the operand stack.
  struct State {
    std::vector<Ref> slots;
    int offset = 0;
    Ref handled;  ///< The exception that the frame is handling.
  };
  /// References to all that the frame holds.
  State save() const;
  /// Takes its place, and drops what the frame held.
  void restore(State state);

  /// The frame's result, new reference, or null with an exception set. `last`: what run() gave last.
  PyObject* finish(Step last);
  /// Goes to another instruction that finds an empty operand stack, but for what it takes off at once.
  void stand_at(int offset);
  /// Ends the frame with this result (owned), at the return instruction where it stands; or, if null, anywhere with
  /// the exception that is set.
  PyObject* finish_with(PyObject* result);

 private:
  /// Sets the next instruction.
  void go_to(int offset);

  std::unique_ptr<Entered> entry_;
  Activation activation_;
  bool entered_ = false;
};

}  // namespace braze::interpreter
