// python/interpreter/cpython_311.h: what differs between the versions of CPython, for 3.11. Included by cpython.h.
#pragma once

#include <algorithm>

namespace braze::interpreter {

/// The running function; of module and exec code too.
inline PyFunctionObject* function_of(const _PyInterpreterFrame* frame) {
  return frame->f_func;
}

/// A new int that is equal to one, also to one of which there is but one object otherwise. Null: no memory.
inline PyObject* fresh_int(PyObject* number) {
  const Py_ssize_t digits = Py_ABS(Py_SIZE(number));
  PyLongObject* copy = _PyLong_New(digits);
  if (!copy) return nullptr;
  Py_SET_SIZE(copy, Py_SIZE(number));
  std::copy_n(reinterpret_cast<PyLongObject*>(number)->ob_digit, digits, copy->ob_digit);
  return reinterpret_cast<PyObject*>(copy);
}

/// One of the forms that an instruction takes while tools watch it.
constexpr bool is_instrumented(int) {
  return false;
}

/// The comparison that COMPARE_OP makes: Py_LT, ...
constexpr int comparison_of(int arg) {
  return arg;
}

/// The name that LOAD_ATTR reads, by its number.
constexpr int attribute_of(int arg) {
  return arg;
}
constexpr bool reads_attribute(int opcode) {
  return opcode == LOAD_ATTR || opcode == LOAD_METHOD;
}

/// What `-x`, `+x` and `~x` do. `none`: the instruction is none of them.
constexpr UnaryOperation unary_of(int opcode, int) {
  return opcode == UNARY_NEGATIVE   ? UnaryOperation::negative
         : opcode == UNARY_INVERT   ? UnaryOperation::invert
         : opcode == UNARY_POSITIVE ? UnaryOperation::positive
                                    : UnaryOperation::none;
}

/// Asks whether its operand is None.
constexpr bool jumps_if_none(int opcode) {
  switch (opcode) {
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE: return true;
    default: return false;
  }
}

/// Makes the tuple that `f(*a, b)` passes.
constexpr bool makes_tuple_of_list(int opcode, int) {
  return opcode == LIST_TO_TUPLE;
}

/// How many values an instruction looks into that the other version does not have; 0: it is none of those.
constexpr int values_looked_into(int opcode) {
  return opcode == LOAD_METHOD ? 1 : 0;
}

/// What `sum` does with floats, beginning with 0; the other version compensates for their rounding.
constexpr bool sums_floats_one_by_one = true;

/// Slices are made by an instruction of their own.
constexpr int sliced_operand(int) {
  return 0;
}

constexpr bool is_return(int opcode) {
  return opcode == RETURN_VALUE;
}

/// What the return instruction of `code` with this argument returns; null: the value on top of the stack. Borrowed.
inline PyObject* returned_constant(PyCodeObject*, int, int) {
  return nullptr;
}

/// What `import` calls unless builtins.__import__ was replaced. Borrowed.
inline PyObject* default_import(PyThreadState* thread) {
  return thread->interp->import_func;
}

/// Signals and pending calls; they run on the main thread only. False with an exception.
inline bool run_pending_calls() {
  return Py_MakePendingCalls() == 0;
}

}  // namespace braze::interpreter
