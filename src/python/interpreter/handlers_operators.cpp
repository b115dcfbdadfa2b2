// python/interpreter/handlers_operators.cpp: operators, subscripts, comparisons, formatting.
#include <array>

#include "python/interpreter/handlers.h"

namespace braze::interpreter {

namespace {

using Unary = PyObject* (*)(PyObject*);
using Binary = PyObject* (*)(PyObject*, PyObject*);

Step unary(Activation& a, Unary operation) {
  const Value operand = a.pop();
  return a.push_result(operation(operand.get()));
}

PyObject* power(PyObject* left, PyObject* right) {
  return PyNumber_Power(left, right, Py_None);
}
PyObject* in_place_power(PyObject* left, PyObject* right) {
  return PyNumber_InPlacePower(left, right, Py_None);
}

// By BINARY_OP's argument.
constexpr auto binary_operations = [] {
  std::array<Binary, 26> table{};
  table[NB_ADD] = PyNumber_Add;
  table[NB_AND] = PyNumber_And;
  table[NB_FLOOR_DIVIDE] = PyNumber_FloorDivide;
  table[NB_LSHIFT] = PyNumber_Lshift;
  table[NB_MATRIX_MULTIPLY] = PyNumber_MatrixMultiply;
  table[NB_MULTIPLY] = PyNumber_Multiply;
  table[NB_REMAINDER] = PyNumber_Remainder;
  table[NB_OR] = PyNumber_Or;
  table[NB_POWER] = power;
  table[NB_RSHIFT] = PyNumber_Rshift;
  table[NB_SUBTRACT] = PyNumber_Subtract;
  table[NB_TRUE_DIVIDE] = PyNumber_TrueDivide;
  table[NB_XOR] = PyNumber_Xor;
  table[NB_INPLACE_ADD] = PyNumber_InPlaceAdd;
  table[NB_INPLACE_AND] = PyNumber_InPlaceAnd;
  table[NB_INPLACE_FLOOR_DIVIDE] = PyNumber_InPlaceFloorDivide;
  table[NB_INPLACE_LSHIFT] = PyNumber_InPlaceLshift;
  table[NB_INPLACE_MATRIX_MULTIPLY] = PyNumber_InPlaceMatrixMultiply;
  table[NB_INPLACE_MULTIPLY] = PyNumber_InPlaceMultiply;
  table[NB_INPLACE_REMAINDER] = PyNumber_InPlaceRemainder;
  table[NB_INPLACE_OR] = PyNumber_InPlaceOr;
  table[NB_INPLACE_POWER] = in_place_power;
  table[NB_INPLACE_RSHIFT] = PyNumber_InPlaceRshift;
  table[NB_INPLACE_SUBTRACT] = PyNumber_InPlaceSubtract;
  table[NB_INPLACE_TRUE_DIVIDE] = PyNumber_InPlaceTrueDivide;
  table[NB_INPLACE_XOR] = PyNumber_InPlaceXor;
  return table;
}();

}  // namespace

Step unary_positive(Activation& a, int) {
  return unary(a, PyNumber_Positive);
}
Step unary_negative(Activation& a, int) {
  return unary(a, PyNumber_Negative);
}
Step unary_invert(Activation& a, int) {
  return unary(a, PyNumber_Invert);
}

Step unary_not(Activation& a, int) {
  const Value operand = a.pop();
  const int truth = PyObject_IsTrue(operand.get());
  if (truth < 0) return Step::error;
  a.push_bool(!truth);
  return Step::next;
}

// CPython's specialised form of `s += t` on strings grows s in place when the local variable that s came from is
// the only other owner. Without it a loop of concatenations is quadratic, so it is done here too.
Step concatenate_in_place(Activation& a) {
  const Fetched store = fetch(a.next);
  const int local = store.arg;
  const bool to_its_own_local = store.opcode == STORE_FAST && a.local(local) == a.peek(2);
  const Value right = a.pop();
  Value left = a.pop();
  if (to_its_own_local) {
    // The local gives up its reference: the instruction that follows sets it.
    Py_DECREF(a.local(local));
    a.local(local) = nullptr;
  }
  PyObject* joined = left.object.release();
  PyUnicode_Append(&joined, right.get());
  return a.push_result(joined);
}

Step binary_op(Activation& a, int arg) {
  if ((arg == NB_ADD || arg == NB_INPLACE_ADD) && PyUnicode_CheckExact(a.peek(1)) &&
      PyUnicode_CheckExact(a.peek(2)))
    return concatenate_in_place(a);
  const Value right = a.pop(), left = a.pop();
  return a.push_result(binary_operations[arg](left.get(), right.get()));
}

Step binary_subscr(Activation& a, int) {
  const Value key = a.pop(), container = a.pop();
  return a.push_result(PyObject_GetItem(container.get(), key.get()));
}

Step store_subscr(Activation& a, int) {
  const Value key = a.pop(), container = a.pop(), value = a.pop();
  return Activation::check(PyObject_SetItem(container.get(), key.get(), value.get()));
}

// container[start:stop]
Step binary_slice(Activation& a, int) {
  const Value stop = a.pop(), start = a.pop(), container = a.pop();
  const Ref slice = Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  return slice ? a.push_result(PyObject_GetItem(container.get(), slice.get())) : Step::error;
}

// container[start:stop] = value
Step store_slice(Activation& a, int) {
  const Value stop = a.pop(), start = a.pop(), container = a.pop(), value = a.pop();
  const Ref slice = Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  return slice ? Activation::check(PyObject_SetItem(container.get(), slice.get(), value.get())) : Step::error;
}

Step delete_subscr(Activation& a, int) {
  const Value key = a.pop(), container = a.pop();
  return Activation::check(PyObject_DelItem(container.get(), key.get()));
}

Step compare_op(Activation& a, int arg) {
  const Value right = a.pop(), left = a.pop();
  return a.push_result(PyObject_RichCompare(left.get(), right.get(), arg));
}

// From 3.12 on the low bits serve CPython's specialised forms.
Step compare_op_shifted(Activation& a, int arg) {
  return compare_op(a, arg >> 4);
}

Step is_op(Activation& a, int arg) {
  const Value right = a.pop(), left = a.pop();
  a.push_bool((left.get() == right.get()) != (arg != 0));
  return Step::next;
}

Step contains_op(Activation& a, int arg) {
  const Value container = a.pop(), item = a.pop();
  const int found = PySequence_Contains(container.get(), item.get());
  if (found < 0) return Step::error;
  a.push_bool((found != 0) != (arg != 0));
  return Step::next;
}

Step build_slice(Activation& a, int arg) {
  const Value step = arg == 3 ? a.pop() : Value{};
  const Value stop = a.pop(), start = a.pop();
  return a.push_result(PySlice_New(start.get(), stop.get(), step.get()));
}

// f"{value!conversion:spec}": the low bits of the argument are the conversion, the next says that there is a spec.
Step format_value(Activation& a, int arg) {
  constexpr int conversion_mask = 3, has_spec = 4;
  constexpr Unary conversions[] = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
  const Value spec = (arg & has_spec) ? a.pop() : Value{};
  Value value = a.pop();
  if (const Unary convert = conversions[arg & conversion_mask]) {
    value.object = Ref::steal(convert(value.get()));
    if (!value.object) return Step::error;
  }
  if (!spec.object && PyUnicode_CheckExact(value.get())) {
    a.push(std::move(value.object));
    return Step::next;
  }
  return a.push_result(PyObject_Format(value.get(), spec.get()));
}

}  // namespace braze::interpreter
