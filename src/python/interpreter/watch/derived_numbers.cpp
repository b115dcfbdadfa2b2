// python/interpreter/watch/derived_numbers.cpp
#include "python/interpreter/watch/derived_numbers.h"

#include <opcode.h>

#include <string_view>
#include <vector>

#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

using guards::Derived;

namespace {

/// A constant that a computation may hold: texts of it are whole.
bool is_plain(PyObject* value) {
  if (PyFloat_CheckExact(value)) return true;
  if (!PyLong_CheckExact(value)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

/// A function, class or method of the interpreter's own that computes a number of numbers.
bool computes_numbers(PyObject* callable) {
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyBool_Type))
    return true;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type))
    return PyDescr_TYPE(callable) == &PyLong_Type || PyDescr_TYPE(callable) == &PyFloat_Type;
  const auto function = function_of_module(callable);
  return function && what_function_does(function->module, function->name) == Does::computes;
}

}  // namespace

// ---- what the values know of them
PyObject* Numbers::make_derived(double number, DerivedNumber derived) {
  guards::Ref one = guards::Ref::steal(PyFloat_FromDouble(number));
  if (!one) throw std::bad_alloc();
  derived_.emplace(one.get(), std::move(derived));
  values_.hold_stand_in(one, nullptr);
  return one.get();
}

DerivedNumber Numbers::derived_of(PyObject* value) const {
  const auto found = derived_.find(value);
  return found == derived_.end() ? nullptr : found->second;
}

// ---- what is computed
std::optional<Derived::Operand> DerivedNumbers::operand(PyObject* value) const {
  if (const DerivedNumber derived = values_.numbers().derived_of(value))
    return Derived::Operand{.derived = derived};
  if (const ir::Size* size = values_.numbers().size_of(value)) return Derived::Operand{.size = *size};
  if (is_plain(value)) return Derived::Operand{.constant = guards::Ref::borrow(value)};
  return std::nullopt;
}

bool DerivedNumbers::keep(Derived::Operation operation, int number, PyObject* function,
                          std::initializer_list<PyObject*> values) {
  return keep(operation, number, function, std::data(values), std::ssize(values));
}

/// The function is called twice in this run, now and by the instruction: it changes nothing.
bool DerivedNumbers::keep(Derived::Operation operation, int number, PyObject* function, PyObject* const* values,
                          Py_ssize_t count) {
  std::vector<Derived::Operand> operands;
  bool any = false;
  size_t weight = 0;
  for (Py_ssize_t k = 0; k < count; ++k) {
    std::optional<Derived::Operand> one = operand(values[k]);
    if (!one) return false;
    any |= !one->constant;
    weight += one->derived ? one->derived->weight() : 0;
    operands.push_back(*std::move(one));
  }
  constexpr size_t heaviest = 256;  // What is put together of itself again and again doubles each time.
  if (!any || weight > heaviest) return false;
  const auto derived =
      std::make_shared<const Derived>(operation, number, guards::Ref::borrow(function), std::move(operands));
  const Ref value = values_.tensors().sizes().value_of(*derived);
  if (!value) return false;
  if (PyBool_Check(value.get())) {
    values_.tensors().sizes().decide(derived, value.get());
    return true;
  }
  if (PyLong_CheckExact(value.get())) {
    activity().size = values_.tensors().sizes().derive(derived, value.get());
    return activity().size.has_value();
  }
  activity().derived = derived;
  return true;
}

bool DerivedNumbers::binary(PyObject* left, PyObject* right, int operation) {
  return keep(Derived::Operation::binary, operation % NB_INPLACE_ADD, nullptr, {left, right});
}

bool DerivedNumbers::compare(PyObject* left, PyObject* right, int comparison) {
  return keep(Derived::Operation::compare, comparison, nullptr, {left, right});
}

bool DerivedNumbers::unary(PyObject* operand, UnaryOperation unary) {
  const auto operation = unary == UnaryOperation::negative ? Derived::Operation::negate
                         : unary == UnaryOperation::invert ? Derived::Operation::invert
                                                           : Derived::Operation::positive;
  return keep(operation, 0, nullptr, {operand});
}

bool DerivedNumbers::truth(PyObject* operand) {
  return values_.numbers().derived_of(operand) &&
         keep(Derived::Operation::call, 0, reinterpret_cast<PyObject*>(&PyBool_Type), {operand});
}

/// `int`, `math.floor` and `math.ceil` of n, or of n divided by a number, are expressions.
bool DerivedNumbers::rounds(PyObject* function, PyObject* value) {
  const ModuleFunction known = function_of_module(function).value_or(ModuleFunction{});
  const std::string_view of_math = known.module == "math" ? known.name : "",
                         of_builtins = known.module == "builtins" ? known.name : "";
  const bool is_int = function == reinterpret_cast<PyObject*>(&PyLong_Type) || of_math == "trunc",
             is_floor = of_math == "floor", is_ceil = of_math == "ceil";
  TensorWorld& world = values_.tensors();
  if (const ir::Size* size = values_.numbers().size_of(value)) {
    const bool is_absolute = of_builtins == "abs";
    if (!is_int && !is_floor && !is_ceil && !is_absolute && of_builtins != "round") return false;
    activity().size = is_absolute && !world.sizes().decide(ir::at_least(*size, 0)) ? -*size : *size;
    return true;
  }
  const DerivedNumber derived = values_.numbers().derived_of(value);
  if (!derived || !derived->quotient() || (!is_int && !is_floor && !is_ceil)) return false;
  const auto [numerator, denominator] = *derived->quotient();
  constexpr int64_t largest = int64_t{1} << 40;
  if (!world.sizes().decide(ir::at_least(numerator, 0)) || !world.sizes().decide(ir::at_most(numerator, largest)))
    return false;
  activity().size = is_ceil ? ir::ceil_div(numerator, denominator) : ir::floor_div(numerator, denominator);
  return true;
}

bool DerivedNumbers::call(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  if (run_.keyword_names || !computes_numbers(function)) return false;
  if (count == 1 && rounds(function, arguments[0])) return true;
  return keep(Derived::Operation::call, 0, function, arguments, count);
}

// ---- what is given to operators, and what they leave
bool DerivedNumbers::give(PyObject*& operand, PyObject* beside) {
  const DerivedNumber derived = values_.numbers().derived_of(operand);
  if (!derived || !values_.tensors().is_tensor(beside)) return false;
  Ref number = values_.tensors().sizes().to_number(derived, operand, beside);
  if (!number) return false;
  values_.make(number.get());
  Ref::steal(std::exchange(operand, number.release()));
  return true;
}

bool DerivedNumbers::take(PyObject*& top) {
  const DerivedNumber derived = std::exchange(activity().derived, nullptr);
  if (!derived || !PyFloat_CheckExact(top)) return false;
  PyObject* one = values_.numbers().make_derived(PyFloat_AS_DOUBLE(top), derived);
  Ref::steal(std::exchange(top, Py_NewRef(one)));
  return true;
}

}  // namespace braze::interpreter
