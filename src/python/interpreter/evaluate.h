// python/interpreter/evaluate.h: evaluates frames of CPython in braze's own interpreter.
//
// Why: to compile a Python function one must know what it does. The evaluator runs it as CPython would, on
// CPython's own frames, so that sys._getframe, super(), warnings, tracebacks and recursion limits need no
// emulation, and tells an observer where every value comes from. It is installed as the evaluation function of PEP
// 523, and only while a Scope is open on some thread; frames of other threads go straight to CPython.
#pragma once

#include <Python.h>

#include "python/interpreter/statistics.h"
#include "python/interpreter/step.h"

namespace braze::interpreter {

class FrameDriver;
class Observer;

/// While it lives, frames that this thread enters are evaluated here. Scopes nest. Needs the GIL.
class Scope {
 public:
  explicit Scope(Observer* observer = nullptr);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Observer* outer_observer_;
};

/// Within a Scope or DriverScope: frames that this thread enters go to CPython as long as it lives.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  int depth_;
  FrameDriver* driver_;
};

/// Of this thread.
Statistics& statistics();

/// The evaluation function. Evaluates `frame` until it returns, yields or raises; `throwing` says that an exception
/// is set that is to be raised where the frame stands. Result and error as CPython's _PyEval_EvalFrameDefault.
PyObject* evaluate(PyThreadState* thread, Frame* frame, int throwing);

/// CPython's own, with nothing of ours in the frames that it enters: for where the C stack is short.
PyObject* evaluate_apart(PyThreadState* thread, Frame* frame, int throwing);

}  // namespace braze::interpreter
