// python/guards/derived.cpp
#include "python/guards/derived.h"

#include <c10/util/SmallVector.h>
#include <opcode.h>

#include <bit>
#include <cmath>
#include <string_view>

#include "python/guards/scalar.h"
#include "support/error.h"
#include "support/fraction.h"

namespace braze::guards {

namespace {

constexpr int64_t largest_whole = int64_t{1} << 40;  // As of numbers that are read (SizeRead).

struct Binary {
  int number;
  const char* sign;
  PyObject* (*compute)(PyObject*, PyObject*);
};
PyObject* power(PyObject* base, PyObject* exponent) {
  return PyNumber_Power(base, exponent, Py_None);
}
constexpr Binary binaries[] = {
    {NB_ADD, "+", PyNumber_Add},
    {NB_SUBTRACT, "-", PyNumber_Subtract},
    {NB_MULTIPLY, "*", PyNumber_Multiply},
    {NB_TRUE_DIVIDE, "/", PyNumber_TrueDivide},
    {NB_FLOOR_DIVIDE, "//", PyNumber_FloorDivide},
    {NB_REMAINDER, "%", PyNumber_Remainder},
    {NB_POWER, "**", power},
    {NB_LSHIFT, "<<", PyNumber_Lshift},
    {NB_RSHIFT, ">>", PyNumber_Rshift},
    {NB_AND, "&", PyNumber_And},
    {NB_OR, "|", PyNumber_Or},
    {NB_XOR, "^", PyNumber_Xor},
};
constexpr const char* comparisons[] = {"<", "<=", "==", "!=", ">", ">="};

const Binary* find_binary(int number) {
  for (const Binary& row : binaries)
    if (row.number == number) return &row;
  return nullptr;
}

/// "math.sqrt", "int", "int.bit_length"
std::string name_of(PyObject* function) {
  if (PyType_Check(function)) return reinterpret_cast<PyTypeObject*>(function)->tp_name;
  const Ref name = Ref::steal(PyObject_GetAttrString(function, "__qualname__"));
  const Ref module = Ref::steal(PyObject_GetAttrString(function, "__module__"));
  PyErr_Clear();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  const char* from = module && PyUnicode_Check(module.get()) ? PyUnicode_AsUTF8(module.get()) : nullptr;
  PyErr_Clear();
  const bool is_builtin = !from || std::string_view(from) == "builtins";
  return is_builtin ? std::string(text ? text : "?") : concat(from, ".", text ? text : "?");
}

bool is_number(PyObject* value) {
  return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value);
}

}  // namespace

Derived::Derived(Operation operation, int number, Ref function, std::vector<Operand> operands)
    : operation_(operation), number_(number), function_(std::move(function)), operands_(std::move(operands)) {
  for (const Operand& operand : operands_) {
    if (operand.size) sizes_.add(*operand.size);
    if (!operand.derived) continue;
    reads_floats_ |= operand.derived->reads_floats();
    weight_ += operand.derived->weight();
  }
  text_ = spell();
  quotient_ = find_quotient();
}

Derived::Derived(int number, std::string text)
    : operation_(Operation::read), number_(number), text_(std::move(text)), reads_floats_(true) {}

std::string Derived::spell() const {
  std::vector<std::string> words;
  for (const Operand& operand : operands_) {
    if (operand.derived) {
      words.push_back(operand.derived->text());
    } else if (operand.size) {
      words.push_back(ir::to_text(*operand.size));
    } else {
      words.push_back(describe(operand.constant.get()));
    }
    if (operation_ != Operation::call && words.back().find(' ') != std::string::npos)
      words.back() = concat("(", words.back(), ")");
  }
  switch (operation_) {
    case Operation::binary: {
      const Binary* row = find_binary(number_);
      return concat(words.at(0), " ", row ? row->sign : "?", " ", words.at(1));
    }
    case Operation::compare: return concat(words.at(0), " ", comparisons[number_], " ", words.at(1));
    case Operation::negate: return concat("-", words.at(0));
    case Operation::positive: return concat("+", words.at(0));
    case Operation::invert: return concat("~", words.at(0));
    case Operation::call:
    case Operation::read: break;
  }
  std::string text = name_of(function_.get()) + "(";
  for (size_t k = 0; k < words.size(); ++k) text += concat(k ? ", " : "", words[k]);
  return text + ")";
}

/// Of numbers so small that the one rounding never reaches a whole number: numerators below 2^40 (whoever uses it
/// guards that), denominators up to 2^10 or powers of two.
std::optional<Derived::Quotient> Derived::find_quotient() const {
  const auto size = [&](size_t k) { return operands_[k].size; };
  if (operation_ == Operation::call) {
    const bool is_float = function_.get() == reinterpret_cast<PyObject*>(&PyFloat_Type);
    return is_float && operands_.size() == 1 && size(0) ? std::optional(Quotient{*size(0), 1}) : std::nullopt;
  }
  if (operation_ != Operation::binary) return std::nullopt;
  if (number_ == NB_TRUE_DIVIDE && size(0) && operands_[1].constant) {
    PyObject* divisor = operands_[1].constant.get();
    double value = 0;
    if (PyLong_CheckExact(divisor)) value = PyLong_AsDouble(divisor);
    if (PyFloat_CheckExact(divisor)) value = PyFloat_AS_DOUBLE(divisor);
    PyErr_Clear();
    if (value < 1 || value > kLargestFactor || value != std::floor(value)) return std::nullopt;
    return Quotient{*size(0), static_cast<int64_t>(value)};
  }
  if (number_ != NB_MULTIPLY) return std::nullopt;
  for (const size_t k : {0, 1}) {
    if (!size(k) || !operands_[1 - k].constant || !PyFloat_CheckExact(operands_[1 - k].constant.get())) continue;
    const double factor = PyFloat_AS_DOUBLE(operands_[1 - k].constant.get());
    const std::optional<Fraction> exact = exact_fraction(factor);
    if (exact && exact->numerator <= kLargestFactor)
      return Quotient{*size(k) * exact->numerator, exact->denominator};
  }
  return std::nullopt;
}

Ref Derived::compute(const CallNumbers& numbers) const {
  if (operation_ == Operation::read)
    return Ref::steal(PyFloat_FromDouble(numbers.floats[static_cast<size_t>(number_)]));
  c10::SmallVector<int64_t, 4> sizes(sizes_.result_count());
  if (!sizes_.run(numbers.symbols, {sizes.data(), sizes.size()})) return {};
  c10::SmallVector<Ref, 4> values;
  size_t next = 0;
  for (const Operand& operand : operands_) {
    if (operand.derived)
      values.push_back(operand.derived->compute(numbers));
    else if (operand.size)
      values.push_back(Ref::steal(PyLong_FromLongLong(sizes[next++])));
    else
      values.push_back(operand.constant);
    if (!values.back()) return {};
  }
  const auto value = [&](size_t k) { return values[k].get(); };
  switch (operation_) {
    case Operation::binary: return Ref::steal(find_binary(number_)->compute(value(0), value(1)));
    case Operation::compare: return Ref::steal(PyObject_RichCompare(value(0), value(1), number_));
    case Operation::negate: return Ref::steal(PyNumber_Negative(value(0)));
    case Operation::positive: return Ref::steal(PyNumber_Positive(value(0)));
    case Operation::invert: return Ref::steal(PyNumber_Invert(value(0)));
    case Operation::call:
    case Operation::read: break;
  }
  c10::SmallVector<PyObject*, 4> arguments;
  for (const Ref& one : values) arguments.push_back(one.get());
  return Ref::steal(PyObject_Vectorcall(function_.get(), arguments.data(), arguments.size(), nullptr));
}

Ref Derived::evaluate(const CallNumbers& numbers) const noexcept {
  try {
    if (operation_ == Operation::binary && !find_binary(number_)) return {};
    Ref result = compute(numbers);
    if (!result) PyErr_Clear();
    return result && is_number(result.get()) ? std::move(result) : Ref();
  } catch (const std::exception&) {  // no memory
    PyErr_Clear();
    return {};
  }
}

bool DerivedTest::holds(const CallNumbers& numbers) const noexcept {
  const Ref value = derived->evaluate(numbers);
  return value && same_scalar(expected.get(), value.get());
}

std::optional<int64_t> part_of(PyObject* number, DerivedPart part) noexcept {
  if (part == DerivedPart::whole) {
    if (!PyLong_CheckExact(number)) return std::nullopt;
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    return overflow || value > largest_whole || value < -largest_whole ? std::nullopt : std::optional(value);
  }
  if (!PyFloat_CheckExact(number)) return std::nullopt;
  const double value = PyFloat_AS_DOUBLE(number);
  // A whole number knows no zero below zero.
  if (!std::isfinite(value) || (value == 0 && std::signbit(value))) return std::nullopt;
  constexpr int digits = 53, most_bits = 61;
  int exponent = 0;
  auto significand = static_cast<int64_t>(std::ldexp(std::frexp(value, &exponent), digits));
  exponent -= digits;
  if (significand == 0) return part == DerivedPart::significand ? 0 : 1;
  const int zeros = std::countr_zero(static_cast<uint64_t>(significand));
  significand >>= zeros;
  exponent += zeros;
  if (exponent >= 0) {
    if (digits - zeros + exponent > most_bits) return std::nullopt;
    return part == DerivedPart::significand ? significand << exponent : 1;
  }
  if (exponent % 2 != 0) significand *= 2, --exponent;
  if (-exponent / 2 > most_bits) return std::nullopt;
  return part == DerivedPart::significand ? significand : int64_t{1} << (-exponent / 2);
}

}  // namespace braze::guards
