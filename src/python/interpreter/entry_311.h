// python/interpreter/entry_311.h: how a frame is entered and left, in 3.11. Included by entry.h.
//
// Whoever calls the evaluation function owns the frame, and clears it afterwards.
#pragma once

#include "python/interpreter/activation.h"

namespace braze::interpreter {

/// Whether a frame's end is an instruction that CPython runs itself.
inline constexpr bool cpython_ends_frames = false;

/// Whether sys.settrace or sys.setprofile is on.
inline bool is_traced(PyThreadState* thread) {
  return thread->cframe->use_tracing;
}

/// Tells the thread that this frame runs, as CPython's own evaluation function does.
class Entered {
 public:
  Entered(PyThreadState* thread, Frame* frame) : thread_(thread) {
    _PyCFrame* before = thread->cframe;
    c_frame_.use_tracing = before->use_tracing;
    c_frame_.previous = before;
    c_frame_.current_frame = frame;
    thread->cframe = &c_frame_;
    frame->is_entry = true;
    frame->previous = before->current_frame;
  }
  ~Entered() {
    thread_->cframe = c_frame_.previous;
    thread_->cframe->use_tracing = c_frame_.use_tracing;
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

  /// Tracing came on while the frame runs.
  bool is_traced_now() const { return c_frame_.use_tracing; }

 private:
  PyThreadState* thread_;
  _PyCFrame c_frame_;
};

/// Counts a Python call; false with a RecursionError.
inline bool enter_call(PyThreadState* thread) {
  return _Py_EnterRecursiveCallTstate(thread, "") == 0;
}
inline void leave_call(PyThreadState* thread) {
  _Py_LeaveRecursiveCallTstate(thread);
}

/// Gives a frame that is through back to its caller: its result, or null with an exception set.
inline PyObject* end_frame(PyThreadState*, Frame*, Step, PyObject* result) {
  return result;
}

/// The same for a frame that must not run on, whatever handlers it has. An exception is set.
inline PyObject* end_abandoned(PyThreadState*, Frame*) {
  return nullptr;
}

}  // namespace braze::interpreter
