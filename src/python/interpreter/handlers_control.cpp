// python/interpreter/handlers_control.cpp: jumps, branches, entry and return.
#include "python/interpreter/handlers.h"
#include "python/interpreter/observer.h"

namespace braze::interpreter {

namespace {

enum class Direction { forward, backward };

/// 1, 0, or -1 with an exception.
int truth(PyObject* object) {
  if (object == Py_True) return 1;
  if (object == Py_False || object == Py_None) return 0;
  return PyObject_IsTrue(object);
}

Step jump(Activation& a, int distance, Direction direction) {
  if (direction == Direction::forward) {
    a.next += distance;
    return Step::next;
  }
  a.next -= distance;
  return service_eval_breaker(a);
}

Step pop_jump_if(Activation& a, int arg, bool wanted, Direction direction) {
  int is_true;
  {
    const Value condition = a.pop();
    is_true = truth(condition.get());
  }
  if (is_true < 0) return Step::error;
  return (is_true != 0) == wanted ? jump(a, arg, direction) : Step::next;
}

Step pop_jump_if_none(Activation& a, int arg, bool wanted, Direction direction) {
  bool is_none;
  {
    const Value value = a.pop();
    is_none = value.get() == Py_None;
  }
  return is_none == wanted ? jump(a, arg, direction) : Step::next;
}

Step jump_or_pop(Activation& a, int arg, bool wanted) {
  const int is_true = truth(a.peek(1));
  if (is_true < 0) return Step::error;
  if ((is_true != 0) == wanted) return jump(a, arg, Direction::forward);
  a.pop();
  return Step::next;
}

}  // namespace

Step service_eval_breaker(Activation& a) {
  struct _ceval_state& state = a.thread->interp->ceval;
  if (!_Py_atomic_load_relaxed(&state.eval_breaker)) return Step::next;
  if (a.observer) {
    // Other threads must not see what a watched run has done, and a signal's handler is not part of it: what waits
    // is for the run that follows.
    const bool is_called = a.thread->async_exc || _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) ||
                           _Py_atomic_load_relaxed(&state.pending.calls_to_do);
    return is_called || a.observer->keeps_others_waiting() ? a.hand_over(Handover::interrupted) : Step::next;
  }
  if (a.thread->async_exc) return a.hand_over(Handover::asynchronous_exception);
  if (!run_pending_calls()) return Step::error;
  if (_Py_atomic_load_relaxed(&state.gil_drop_request)) PyEval_RestoreThread(PyEval_SaveThread());
  return Step::next;
}

// The argument: 0 at the start of a function, 1 after a yield, 2 and 3 in `yield from` and `await`.
Step resume(Activation& a, int arg) {
  return arg < 2 ? service_eval_breaker(a) : Step::next;
}

Step return_value(Activation& a, int) {
  a.result = a.pop().object.release();
  return Step::returned;
}

// RETURN_VALUE, RETURN_CONST and YIELD_VALUE of 3.12.
Step end_by_cpython(Activation&, int) {
  return Step::ends;
}

Step jump_forward(Activation& a, int arg) {
  return jump(a, arg, Direction::forward);
}
Step jump_backward(Activation& a, int arg) {
  return jump(a, arg, Direction::backward);
}
Step jump_backward_no_interrupt(Activation& a, int arg) {
  a.next -= arg;
  return Step::next;
}
Step jump_if_false_or_pop(Activation& a, int arg) {
  return jump_or_pop(a, arg, false);
}
Step jump_if_true_or_pop(Activation& a, int arg) {
  return jump_or_pop(a, arg, true);
}
Step pop_jump_forward_if_false(Activation& a, int arg) {
  return pop_jump_if(a, arg, false, Direction::forward);
}
Step pop_jump_forward_if_true(Activation& a, int arg) {
  return pop_jump_if(a, arg, true, Direction::forward);
}
Step pop_jump_backward_if_false(Activation& a, int arg) {
  return pop_jump_if(a, arg, false, Direction::backward);
}
Step pop_jump_backward_if_true(Activation& a, int arg) {
  return pop_jump_if(a, arg, true, Direction::backward);
}
Step pop_jump_forward_if_none(Activation& a, int arg) {
  return pop_jump_if_none(a, arg, true, Direction::forward);
}
Step pop_jump_forward_if_not_none(Activation& a, int arg) {
  return pop_jump_if_none(a, arg, false, Direction::forward);
}
Step pop_jump_backward_if_none(Activation& a, int arg) {
  return pop_jump_if_none(a, arg, true, Direction::backward);
}
Step pop_jump_backward_if_not_none(Activation& a, int arg) {
  return pop_jump_if_none(a, arg, false, Direction::backward);
}

}  // namespace braze::interpreter
