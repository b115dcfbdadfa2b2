// python/interpreter/cpython_312.h: what differs between the versions of CPython, for 3.12. Included by cpython.h.
#pragma once

#include <internal/pycore_import.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_intrinsics.h>

#include <algorithm>

namespace braze::interpreter {

/// The running function; of module and exec code too.
inline PyFunctionObject* function_of(const _PyInterpreterFrame* frame) {
  return reinterpret_cast<PyFunctionObject*>(frame->f_funcobj);
}

/// A new int that is equal to one, also to one of which there is but one object otherwise. Null: no memory.
inline PyObject* fresh_int(PyObject* number) {
  const _PyLongValue& value = reinterpret_cast<PyLongObject*>(number)->long_value;
  // NON_SIZE_BITS of pycore_long.h, which defines what torch's pythoncapi_compat.h defines, too.
  constexpr int non_size_bits = 3;
  const auto digits = static_cast<Py_ssize_t>(value.lv_tag >> non_size_bits);
  PyLongObject* copy = _PyLong_New(digits);
  if (!copy) return nullptr;
  copy->long_value.lv_tag = value.lv_tag;
  std::copy_n(value.ob_digit, digits, copy->long_value.ob_digit);
  return reinterpret_cast<PyObject*>(copy);
}

/// One of the forms that an instruction takes while tools watch it.
constexpr bool is_instrumented(int opcode) {
  return opcode >= MIN_INSTRUMENTED_OPCODE;
}

/// The comparison that COMPARE_OP makes: Py_LT, ...
constexpr int comparison_of(int arg) {
  return arg >> 4;
}

/// The name that LOAD_ATTR reads, by its number.
constexpr int attribute_of(int arg) {
  return arg >> 1;
}
constexpr bool reads_attribute(int opcode) {
  return opcode == LOAD_ATTR;
}

/// What `-x`, `+x` and `~x` do. `none`: the instruction is none of them.
constexpr UnaryOperation unary_of(int opcode, int arg) {
  return opcode == UNARY_NEGATIVE                                        ? UnaryOperation::negative
         : opcode == UNARY_INVERT                                        ? UnaryOperation::invert
         : opcode == CALL_INTRINSIC_1 && arg == INTRINSIC_UNARY_POSITIVE ? UnaryOperation::positive
                                                                         : UnaryOperation::none;
}

/// Asks whether its operand is None.
constexpr bool jumps_if_none(int opcode) {
  return opcode == POP_JUMP_IF_NONE || opcode == POP_JUMP_IF_NOT_NONE;
}

/// Makes the tuple that `f(*a, b)` passes.
constexpr bool makes_tuple_of_list(int opcode, int arg) {
  return opcode == CALL_INTRINSIC_1 && arg == INTRINSIC_LIST_TO_TUPLE;
}

/// How many values an instruction looks into that the other version does not have; 0: it is none of those.
constexpr int values_looked_into(int opcode) {
  return opcode == BINARY_SLICE ? 3 : opcode == STORE_SLICE ? 4 : 0;
}

/// `sum` compensates for the rounding of floats.
constexpr bool sums_floats_one_by_one = false;

/// Of `a[b:c]` and `a[b:c] = d`, whose slices are not made: where `a` lies, above it `b` and `c`. 0: it is neither.
constexpr int sliced_operand(int opcode) {
  return opcode == BINARY_SLICE || opcode == STORE_SLICE ? 3 : 0;
}

constexpr bool is_return(int opcode) {
  return opcode == RETURN_VALUE || opcode == RETURN_CONST;
}

/// What the return instruction of `code` with this argument returns; null: the value on top of the stack. Borrowed.
inline PyObject* returned_constant(PyCodeObject* code, int opcode, int arg) {
  return opcode == RETURN_CONST ? PyTuple_GET_ITEM(code->co_consts, arg) : nullptr;
}

/// What `import` calls unless builtins.__import__ was replaced. Borrowed.
inline PyObject* default_import(PyThreadState* thread) {
  return thread->interp->imports.import_func;
}

/// Signals, pending calls, and the garbage collection that an allocation asked for. False with an exception.
inline bool run_pending_calls() {
  return PyErr_CheckSignals() == 0 && Py_MakePendingCalls() == 0;
}

}  // namespace braze::interpreter
