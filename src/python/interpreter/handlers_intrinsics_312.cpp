// python/interpreter/handlers_intrinsics_312.cpp: CALL_INTRINSIC_1 and CALL_INTRINSIC_2 of 3.12, rare operations
// that share an opcode. Their own table: by argument, what runs.
#include <array>

#include "python/interpreter/handlers.h"

namespace braze::interpreter {

namespace {

Step print(Activation& a, int) {
  const Value value = a.pop();
  const Ref hook = Ref::borrow(PySys_GetObject("displayhook"));
  if (!hook) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return Step::error;
  }
  return a.push_result(PyObject_CallOneArg(hook.get(), value.get()));
}

Step star(Activation& a, int) {
  return a.hand_over(Handover::import_star);
}

// A StopIteration that leaves a generator becomes a RuntimeError (PEP 479).
Step stop_iteration_error(Activation& a, int) {
  PyObject* exception = a.peek(1);
  if (!PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) return Step::next;
  const Ref message = Ref::steal(PyUnicode_FromString("generator raised StopIteration"));
  Ref error = message ? Ref::steal(PyObject_CallOneArg(PyExc_RuntimeError, message.get())) : Ref();
  if (!error) return Step::error;
  PyException_SetCause(error.get(), Py_NewRef(exception));
  PyException_SetContext(error.get(), Py_NewRef(exception));
  a.pop();
  a.push(std::move(error));
  return Step::next;
}

Step asynchronous(Activation& a, int) {
  return a.hand_over(Handover::coroutine);
}

Step positive(Activation& a, int) {
  const Value operand = a.pop();
  return a.push_result(PyNumber_Positive(operand.get()));
}

Step tuple_of_list(Activation& a, int) {
  const Value list = a.pop();
  return a.push_result(PyList_AsTuple(list.get()));
}

// Type variables, aliases and generic classes are made by functions that CPython's library does not export.
Step type_parameters(Activation& a, int) {
  return a.hand_over(Handover::type_parameters);
}

Step except_star(Activation& a, int) {
  return a.hand_over(Handover::except_star);
}

constexpr auto unary = [] {
  std::array<Handler, MAX_INTRINSIC_1 + 1> table{};
  table[INTRINSIC_PRINT] = print;
  table[INTRINSIC_IMPORT_STAR] = star;
  table[INTRINSIC_STOPITERATION_ERROR] = stop_iteration_error;
  table[INTRINSIC_ASYNC_GEN_WRAP] = asynchronous;
  table[INTRINSIC_UNARY_POSITIVE] = positive;
  table[INTRINSIC_LIST_TO_TUPLE] = tuple_of_list;
  for (const int kind : {INTRINSIC_TYPEVAR, INTRINSIC_PARAMSPEC, INTRINSIC_TYPEVARTUPLE,
                         INTRINSIC_SUBSCRIPT_GENERIC, INTRINSIC_TYPEALIAS})
    table[kind] = type_parameters;
  return table;
}();

constexpr auto binary = [] {
  std::array<Handler, MAX_INTRINSIC_2 + 1> table{};
  table[INTRINSIC_PREP_RERAISE_STAR] = except_star;
  for (const int kind :
       {INTRINSIC_TYPEVAR_WITH_BOUND, INTRINSIC_TYPEVAR_WITH_CONSTRAINTS, INTRINSIC_SET_FUNCTION_TYPE_PARAMS})
    table[kind] = type_parameters;
  return table;
}();

}  // namespace

Step call_intrinsic_1(Activation& a, int arg) {
  return unary[arg](a, arg);
}

Step call_intrinsic_2(Activation& a, int arg) {
  return binary[arg](a, arg);
}

}  // namespace braze::interpreter
