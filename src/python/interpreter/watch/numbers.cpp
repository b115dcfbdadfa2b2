// python/interpreter/watch/numbers.cpp
#include "python/interpreter/watch/numbers.h"

#include <opcode.h>

#include <optional>
#include <utility>

#include "python/guards/scalar.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

// ---- what the values know of them
PyObject* Values::make_number(double value, std::shared_ptr<const Number> number) {
  guards::Ref one = guards::Ref::steal(PyFloat_FromDouble(value));
  if (!one) throw std::bad_alloc();
  numbers_.emplace(one.get(), std::move(number));
  held_.push_back(one);
  return one.get();
}

PyObject* Values::vary_float(PyObject* number, const guards::Source* source) {
  if (const auto known = varied_floats_.find(source); known != varied_floats_.end()) return known->second;
  Ref tracer = tensors_.vary_float(number, source);
  if (!tracer) return nullptr;
  guards_.type(source, &PyFloat_Type);
  Number made{guards::Ref::borrow(tracer.get()), {{guards::Ref::borrow(number), source}}};
  PyObject* one = make_number(PyFloat_AS_DOUBLE(number), std::make_shared<const Number>(std::move(made)));
  scalars_[one] = {source};
  return varied_floats_[source] = one;
}

PyObject* Values::vary_entry(PyObject* dict, PyObject* key) {
  const guards::Source* source = source_of(dict);
  if (!source || !PyUnicode_CheckExact(key) || effects_.wrote(dict, key)) return nullptr;
  PyObject* value = PyDict_GetItemWithError(dict, key);
  return value && PyFloat_CheckExact(value) ? vary(value, sources().dict_item(source, key)) : nullptr;
}

std::shared_ptr<const Number> Values::number_of(PyObject* value) const {
  const auto found = numbers_.find(value);
  return found == numbers_.end() ? nullptr : found->second;
}

void Values::settle_number(PyObject* value) {
  const std::shared_ptr<const Number> number = number_of(value);
  if (!number) return;
  numbers_.erase(value);
  for (const Number::Read& read : number->reads) learn(read.value.get(), read.source);
}

// ---- instructions

bool Numbers::are_given_to(std::string_view operator_name) {
  static const Names names = {"add",           "add_",          "sub",           "sub_",           "mul",
                              "mul_",          "div",           "div_",          "addcmul",        "addcmul_",
                              "addcdiv",       "addcdiv_",      "_foreach_add",  "_foreach_add_",  "_foreach_sub",
                              "_foreach_sub_", "_foreach_mul",  "_foreach_mul_", "_foreach_div",   "_foreach_div_",
                              "_fused_adam_",  "_fused_adamw_", "_fused_sgd_",   "_fused_adagrad_"};
  return names.contains(operator_name);
}

Ref Numbers::tensor_of(const Number& number) {
  values_.make(number.tracer.get());
  return Ref::borrow(number.tracer.get());
}

namespace {

/// What it was computed of.
std::vector<Number::Read> reads_of(const Number* left, const Number* right) {
  std::vector<Number::Read> reads;
  for (const Number* one : {left, right})
    if (one) reads.insert(reads.end(), one->reads.begin(), one->reads.end());
  return reads;
}

std::optional<Arithmetic> arithmetic(int operation) {
  switch (operation) {
    case NB_ADD: return Arithmetic::add;
    case NB_SUBTRACT: return Arithmetic::subtract;
    case NB_MULTIPLY: return Arithmetic::multiply;
    case NB_TRUE_DIVIDE: return Arithmetic::divide;
    default: return std::nullopt;
  }
}

}  // namespace

void Numbers::negate(PyObject* operand) {
  const std::shared_ptr<const Number> number = values_.number_of(operand);
  if (!number) return;
  const Ref minus = Ref::steal(PyFloat_FromDouble(-1));
  Ref tracer =
      minus ? values_.tensors().compute_number(Arithmetic::multiply, number->tracer.get(), minus.get()) : Ref();
  if (!tracer) return values_.settle_number(operand);
  activity().number =
      std::make_shared<const Number>(Number{guards::Ref::borrow(tracer.get()), reads_of(number.get(), nullptr)});
}

bool Numbers::give(PyObject*& operand, PyObject* beside) {
  const std::shared_ptr<const Number> number = values_.number_of(operand);
  if (!number || !values_.tensors().is_tensor(beside) || !values_.tensors().takes_numbers(beside)) return false;
  Ref::steal(std::exchange(operand, tensor_of(*number).release()));
  return true;
}

bool Numbers::compute(PyObject*& left, PyObject*& right, int operation) {
  const std::shared_ptr<const Number> a = values_.number_of(left), b = values_.number_of(right);
  if (!a && !b) return false;
  const std::optional<Arithmetic> kind = arithmetic(operation);
  // A float by a tensor is the float times the tensor's reciprocal (Tensor.__rtruediv__), which rounds otherwise.
  const bool is_reciprocal = kind == Arithmetic::divide && a && !values_.tensors().is_number(right);
  if (kind && ((!is_reciprocal && give(left, right)) || give(right, left))) return true;
  const auto fits = [](const auto& number, PyObject* value) {
    return number || PyFloat_CheckExact(value) || PyLong_CheckExact(value);
  };
  if (kind && fits(a, left) && fits(b, right) && !values_.size_of(left) && !values_.size_of(right)) {
    Ref tracer = values_.tensors().compute_number(*kind, a ? a->tracer.get() : left, b ? b->tracer.get() : right);
    if (tracer) {
      activity().number =
          std::make_shared<const Number>(Number{guards::Ref::borrow(tracer.get()), reads_of(a.get(), b.get())});
      return true;
    }
  }
  values_.settle_number(left);
  values_.settle_number(right);
  return false;
}

bool Numbers::take(PyObject*& top) {
  PyObject* one = std::exchange(activity().stands_in, nullptr);
  if (!PyFloat_CheckExact(top)) one = nullptr;
  if (const std::shared_ptr<const Number> number = std::exchange(activity().number, nullptr))
    if (PyFloat_CheckExact(top)) one = values_.make_number(PyFloat_AS_DOUBLE(top), number);
  if (!one) return false;
  Ref::steal(std::exchange(top, Py_NewRef(one)));
  return true;
}

}  // namespace braze::interpreter
