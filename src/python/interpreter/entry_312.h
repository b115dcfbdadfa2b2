// python/interpreter/entry_312.h: how a frame is entered and left, in 3.12. Included by entry.h.
//
// The evaluation function clears and pops its frame, by functions that CPython's library does not export. So the
// instruction that ends a frame is left to CPython's own evaluation function: it returns, yields, or finds no
// handler for an exception, and does all that belongs to it.
#pragma once

#include <algorithm>
#include <iterator>

#include "python/interpreter/activation.h"

namespace braze::interpreter {

/// Whether a frame's end is an instruction that CPython runs itself.
inline constexpr bool cpython_ends_frames = true;

/// Whether a tool of sys.monitoring, sys.settrace or sys.setprofile is on. Those that watch single functions only
/// are seen by their instrumented instructions.
inline bool is_traced(PyThreadState* thread) {
  const auto& tools = thread->interp->monitors.tools;
  return std::any_of(std::begin(tools), std::end(tools), [](uint8_t set) { return set != 0; });
}

/// Tells the thread that this frame runs, as CPython's own evaluation function does.
class Entered {
 public:
  Entered(PyThreadState* thread, Frame* frame)
      : thread_(thread), monitoring_version_(thread->interp->monitoring_version) {
    c_frame_.previous = thread->cframe;
    c_frame_.current_frame = frame;
    frame->previous = thread->cframe->current_frame;
    thread->cframe = &c_frame_;
  }
  ~Entered() { thread_->cframe = c_frame_.previous; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

  /// Tools came or went while the frame runs.
  bool is_traced_now() const { return thread_->interp->monitoring_version != monitoring_version_; }

 private:
  PyThreadState* thread_;
  uint64_t monitoring_version_;
  _PyCFrame c_frame_;
};

/// Counts a Python call; false with a RecursionError. Calls of C functions have a count of their own.
inline bool enter_call(PyThreadState* thread) {
  constexpr int for_handlers = -50;  // While a RecursionError is made, CPython allows as many more.
  if (thread->py_recursion_remaining-- > 0) return true;
  if (thread->recursion_headroom > 0 && thread->py_recursion_remaining >= for_handlers) return true;
  ++thread->py_recursion_remaining;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  return false;
}
inline void leave_call(PyThreadState* thread) {
  ++thread->py_recursion_remaining;
}

/// Has CPython end a frame that is through: its result, or null with an exception set.
inline PyObject* end_frame(PyThreadState* thread, Frame* frame, Step last, PyObject*) {
  return _PyEval_EvalFrameDefault(thread, frame, last == Step::error);
}

/// The same for a frame that must not run on, whatever handlers it has: before its first instruction it has none.
/// An exception is set.
inline PyObject* end_abandoned(PyThreadState* thread, Frame* frame) {
  frame->prev_instr = first_unit(frame->f_code) - 1;
  return _PyEval_EvalFrameDefault(thread, frame, 1);
}

}  // namespace braze::interpreter
