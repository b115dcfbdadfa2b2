// python/interpreter/activation.h: a frame while the evaluator runs it.
#pragma once

#include "python/interpreter/code_units.h"
#include "python/interpreter/ref.h"
#include "python/interpreter/statistics.h"
#include "python/interpreter/step.h"

namespace braze::interpreter {

class Observer;

/// An owned object off the stack.
struct Value {
  Ref object;

  PyObject* get() const { return object.get(); }
};

/// One activation of the evaluator. Handlers get it and the instruction's argument.
///
/// While it lives, the frame's own `stacktop` is -1, as in CPython: nobody may look at the stack from outside. The
/// frame's `prev_instr` is the running instruction, so that line numbers are right wherever Python code looks.
struct Activation {
  PyThreadState* thread;
  Frame* frame;
  Observer* observer;                 ///< Null if nobody watches.
  PyObject** top;                     ///< The next free stack slot.
  const CodeUnit* current;            ///< The running instruction: its opcode, after all EXTENDED_ARG.
  const CodeUnit* next;               ///< Where the evaluator goes on.
  const CodeUnit* start = current;    ///< Where the running instruction begins: its first EXTENDED_ARG.
  PyObject* keyword_names = nullptr;  ///< Borrowed; set by KW_NAMES for the next CALL.
  PyObject* result = nullptr;         ///< Owned; of a frame that returned or yielded.
  Handover handover = Handover::unknown_opcode;

  PyCodeObject* code() const { return frame->f_code; }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(code()->co_names, index); }
  PyObject* constant(int index) const { return PyTuple_GET_ITEM(code()->co_consts, index); }
  /// Offset of a unit in the code.
  int offset_of(const CodeUnit* unit) const { return static_cast<int>(unit - first_unit(code())); }
  PyObject*& local(int index) { return frame->localsplus[index]; }
  PyObject** stack_base() const { return frame->localsplus + code()->co_nlocalsplus; }

  void push(Ref object) { *top++ = object.release(); }
  void push_borrowed(PyObject* object) { push(Ref::borrow(object)); }
  void push_bool(bool value) { push_borrowed(value ? Py_True : Py_False); }
  Value pop() { return {Ref::steal(*--top)}; }
  /// The slot `depth` below the top; 1 is the topmost. Borrowed.
  PyObject*& peek(int depth) { return top[-depth]; }
  /// Drops the topmost `count` values, last first.
  void drop(Py_ssize_t count) {
    for (; count > 0; --count) pop();
  }

  /// Pushes a call's result; null is an error.
  Step push_result(PyObject* owned) {
    if (!owned) return Step::error;
    push(Ref::steal(owned));
    return Step::next;
  }
  /// Status as C functions give it: negative is an error.
  static Step check(int status) { return status < 0 ? Step::error : Step::next; }
  Step hand_over(Handover reason) {
    handover = reason;
    return Step::handover;
  }
};

using Handler = Step (*)(Activation&, int);

}  // namespace braze::interpreter
