// python/interpreter/handlers_iteration.cpp: for loops and generators.
//
// A generator's frame lives in the generator. CPython's gen_send() puts the sent value on its stack and calls the
// evaluation function, here as for any frame; what a suspended frame must look like is written at yield_value.
#include "python/interpreter/handlers.h"

namespace braze::interpreter {

Step get_iter(Activation& a, int) {
  const Value iterable = a.pop();
  return a.push_result(PyObject_GetIter(iterable.get()));
}

// `yield from`: a generator is its own iterator; a coroutine may only be awaited by what is one.
Step get_yield_from_iter(Activation& a, int) {
  PyObject* iterable = a.peek(1);
  if (PyGen_CheckExact(iterable)) return Step::next;
  if (!PyCoro_CheckExact(iterable)) return get_iter(a, 0);
  if (a.code()->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) return Step::next;
  PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
  return Step::error;
}

// The argument leads past the loop.
Step for_iter(Activation& a, int arg) {
  PyObject* iterator = a.peek(1);
  if (PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator)) {
    a.push(Ref::steal(item));
    return Step::next;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Step::error;
    PyErr_Clear();
  }
  a.pop();
  a.next += arg;
  return Step::next;
}

// From 3.12 on the argument leads to an END_FOR, which is for generators that CPython runs in the same loop.
Step for_iter_past_end(Activation& a, int arg) {
  return for_iter(a, arg + 1);
}

Step end_for(Activation& a, int) {
  a.drop(2);
  return Step::next;
}

// Sends the topmost value into the iterator below it. While that yields, its values are yielded on; when it
// returns, its result takes the iterator's place and the argument leads past the loop.
Step send(Activation& a, int arg) {
  const Value value = a.pop();
  PyObject* received = nullptr;
  const PySendResult status = PyIter_Send(a.peek(1), value.get(), &received);
  if (status == PYGEN_ERROR) return Step::error;
  if (status == PYGEN_RETURN) {
    a.pop();
    a.next += arg;
  }
  a.push(Ref::steal(received));
  return Step::next;
}

// From 3.12 on the iterator stays below its result until END_SEND drops it.
Step send_beside_iterator(Activation& a, int arg) {
  const Value value = a.pop();
  PyObject* received = nullptr;
  const PySendResult status = PyIter_Send(a.peek(1), value.get(), &received);
  if (status == PYGEN_ERROR) return Step::error;
  if (status == PYGEN_RETURN) a.next += arg;
  a.push(Ref::steal(received));
  return Step::next;
}

Step end_send(Activation& a, int) {
  Ref result = std::move(a.pop().object);
  a.pop();
  a.push(std::move(result));
  return Step::next;
}

Step yield_value(Activation& a, int) {
  a.result = a.pop().object.release();
  _PyFrame_GetGenerator(a.frame)->gi_frame_state = FRAME_SUSPENDED;
  return Step::yielded;
}

// CPython's own instruction moves the frame into a new generator, by functions that its library does not export,
// and returns. The generator's frame comes back here when it is resumed.
Step return_generator(Activation& a, int) {
  return a.hand_over(Handover::generator_creation);
}

Step get_awaitable(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}
Step get_aiter(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}
Step get_anext(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}
Step before_async_with(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}
Step end_async_for(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}
Step async_gen_wrap(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}

}  // namespace braze::interpreter
