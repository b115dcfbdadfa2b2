#include "capture/size_node.h"

#include <ATen/core/ivalue.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymNodeImpl.h>

#include <cmath>
#include <functional>
#include <optional>

#include "support/error.h"

namespace braze::capture {
namespace {

using c10::SymNode;

/// What is asked of sizes in PyTorch's own code: one expression (SizeNode), one question about expressions
/// (AnswerNode), or a float that was computed of numbers (FloatNode).
class TraceNode : public c10::SymNodeImpl {
 public:
  bool is_int() override { return false; }
  bool is_bool() override { return false; }
  bool is_float() override { return false; }
  bool is_nested_int() const override { return false; }
  bool has_hint() override { return true; }
  bool is_symbolic() override { return !is_constant(); }
  SymNode wrap_int(int64_t number) override;
  SymNode wrap_float(double number) override;
  SymNode wrap_bool(bool answer) override;
  std::string _graph_repr() override { return str(); }

  virtual double number() const = 0;
  virtual Dim dim() const { throw UserError("braze: a size was expected where there is another number"); }

 protected:
  static TraceNode& node(const SymNode& other) {
    auto* mine = dynamic_cast<TraceNode*>(other.get());
    if (!mine) throw UserError("braze: a symbolic size of another tracer was met");
    return *mine;
  }
  static ir::ShapeEnv& env() {
    BRAZE_CHECK(SymbolsScope::current(), "a size of a trace is asked about outside of it");
    return *SymbolsScope::current()->env;
  }
};

template <typename Node, typename Value>
SymNode make(Value value) {
  return c10::make_intrusive<Node>(value);
}

class AnswerNode final : public TraceNode {
 public:
  explicit AnswerNode(ir::SizeTest test) : test_(test) {}
  explicit AnswerNode(bool answer) : answer_(answer) {}

  bool is_bool() override { return true; }
  bool is_constant() override { return answer_.has_value(); }
  std::optional<bool> constant_bool() override { return answer_; }
  SymNode clone() override { return answer_ ? make<AnswerNode>(*answer_) : make<AnswerNode>(test_); }

  SymNode sym_not() override {
    return answer_ ? make<AnswerNode>(!*answer_) : make<AnswerNode>(ir::negation(test_));
  }
  SymNode sym_and(const SymNode& b) override { return make<AnswerNode>(bool_() && b->bool_()); }
  SymNode sym_or(const SymNode& b) override { return make<AnswerNode>(bool_() || b->bool_()); }
  SymNode sym_ite(const SymNode& a, const SymNode& b) override { return bool_() ? a : b; }

  bool guard_bool(const char*, int64_t) override { return bool_(); }
  bool guard_size_oblivious(const char*, int64_t) override { return bool_(); }
  bool guard_or_false(const char*, int64_t) override { return bool_(); }
  bool guard_or_true(const char*, int64_t) override { return bool_(); }
  bool expect_true(const char*, int64_t) override { return bool_(); }
  bool statically_known_true(const char*, int64_t) override {
    return answer_ ? *answer_ : env().prove(test_).value_or(false);
  }
  bool bool_() override { return answer_ ? *answer_ : env().decide(test_, SymbolsScope::current()->why); }
  std::string str() override { return answer_ ? concat(static_cast<double>(*answer_)) : ir::to_text(test_); }
  double number() const override { return answer_.value_or(false); }

 private:
  ir::SizeTest test_{};
  std::optional<bool> answer_;  ///< Known: there is no question.
};

/// What may be computed of sizes as of floats, each of which is a number then.
class NumberNode : public TraceNode {
 public:
  SymNode truediv(const SymNode& b) override;
  SymNode int_truediv(const SymNode& b) override { return truediv(b); }
  SymNode float_truediv(const SymNode& b) override { return truediv(b); }
  SymNode float_pow(const SymNode& b) override;
  SymNode sym_float() override;

  SymNode eq(const SymNode& b) override { return compare(b, ir::equal, std::equal_to<>()); }
  SymNode ne(const SymNode& b) override { return compare(b, ir::differs, std::not_equal_to<>()); }
  SymNode lt(const SymNode& b) override { return compare(b, ir::less, std::less<>()); }
  SymNode gt(const SymNode& b) override { return compare(b, ir::greater, std::greater<>()); }
  SymNode le(const SymNode& b) override { return compare(b, ir::at_most, std::less_equal<>()); }
  SymNode ge(const SymNode& b) override { return compare(b, ir::at_least, std::greater_equal<>()); }

  double guard_float(const char*, int64_t) override { return number(); }

 private:
  template <typename Ask, typename Compare>
  SymNode compare(const SymNode& b, Ask ask, Compare numbers) {
    if (is_int() && node(b).is_int()) return make<AnswerNode>(ask(dim().size(), node(b).dim().size()));
    return make<AnswerNode>(static_cast<bool>(numbers(number(), node(b).number())));
  }
};

class SizeNode final : public NumberNode {
 public:
  explicit SizeNode(Dim dim) : dim_(dim) {}

  Dim dim() const override { return dim_; }
  double number() const override { return static_cast<double>(static_cast<int64_t>(dim_)); }
  bool is_int() override { return true; }
  bool is_constant() override { return dim_.is_number(); }
  std::optional<int64_t> maybe_as_int() override { return constant_int(); }
  std::optional<int64_t> constant_int() override {
    return dim_.is_number() ? std::optional<int64_t>(dim_) : std::nullopt;
  }
  SymNode clone() override { return make<SizeNode>(dim_); }

  SymNode add(const SymNode& b) override { return make<SizeNode>(dim_ + node(b).dim()); }
  SymNode sub(const SymNode& b) override { return make<SizeNode>(dim_ - node(b).dim()); }
  SymNode mul(const SymNode& b) override { return make<SizeNode>(dim_ * node(b).dim()); }
  SymNode floordiv(const SymNode& b) override { return int_floordiv(b); }
  SymNode int_floordiv(const SymNode& b) override {
    const Dim divisor = node(b).dim();
    if (!dim_.is_number() || !divisor.is_number()) return make<SizeNode>(dim_ / divisor);
    return make<SizeNode>(Dim(ir::floor_div(dim_.size(), divisor.size())));
  }
  SymNode mod(const SymNode& b) override { return make<SizeNode>(dim_ % node(b).dim()); }
  SymNode neg() override { return make<SizeNode>(-dim_); }
  SymNode sym_min(const SymNode& b) override { return make<SizeNode>(smaller(dim_, node(b).dim())); }
  SymNode sym_max(const SymNode& b) override { return make<SizeNode>(larger(dim_, node(b).dim())); }
  SymNode pow(const SymNode& b) override { return node(b).is_int() ? pow_by_natural(b) : float_pow(b); }
  SymNode pow_by_natural(const SymNode& b) override {
    Dim product = 1;
    for (int64_t left = node(b).dim(); left > 0; --left) product *= dim_;
    return make<SizeNode>(product);
  }
  SymNode ceil() override { return clone(); }
  SymNode floor() override { return clone(); }

  int64_t guard_int(const char*, int64_t) override { return dim_; }
  int64_t int_() override { return dim_; }
  std::string str() override { return ir::to_text(dim_.size()); }

 private:
  Dim dim_;
};

class FloatNode final : public NumberNode {
 public:
  explicit FloatNode(double number) : number_(number) {}

  double number() const override { return number_; }
  bool is_float() override { return true; }
  bool is_constant() override { return true; }
  SymNode clone() override { return make<FloatNode>(number_); }
  SymNode mul(const SymNode& b) override { return make<FloatNode>(number_ * node(b).number()); }
  SymNode pow(const SymNode& b) override { return float_pow(b); }
  SymNode ceil() override { return make<SizeNode>(Dim(static_cast<int64_t>(std::ceil(number_)))); }
  SymNode floor() override { return make<SizeNode>(Dim(static_cast<int64_t>(std::floor(number_)))); }
  std::string str() override { return concat(number_); }

 private:
  double number_;
};

SymNode TraceNode::wrap_int(int64_t number) {
  return make<SizeNode>(Dim(number));
}
SymNode TraceNode::wrap_float(double number) {
  return make<FloatNode>(number);
}
SymNode TraceNode::wrap_bool(bool answer) {
  return make<AnswerNode>(answer);
}
SymNode NumberNode::truediv(const SymNode& b) {
  return make<FloatNode>(number() / node(b).number());
}
SymNode NumberNode::float_pow(const SymNode& b) {
  return make<FloatNode>(std::pow(number(), node(b).number()));
}
SymNode NumberNode::sym_float() {
  return make<FloatNode>(number());
}

}  // namespace

c10::SymInt to_sym_int(Dim dim) {
  if (dim.is_number()) return static_cast<int64_t>(dim);
  return c10::SymInt(make<SizeNode>(dim));
}

Dim dim_of(const c10::SymInt& size) {
  if (const auto number = size.maybe_as_int()) return *number;
  const auto* node = dynamic_cast<SizeNode*>(size.toSymNodeImplUnowned());
  if (!node) throw UserError("braze: a symbolic size of another tracer was met");
  return node->dim();
}

Dim dim_of(const c10::IValue& value) {
  return value.isSymInt() ? dim_of(value.toSymInt()) : Dim(value.toInt());
}

bool has_symbols(const c10::IValue& value) {
  if (value.isSymInt() || value.isSymFloat() || value.isSymBool()) return true;
  if (value.isScalar()) return value.toScalar().isSymbolic();
  if (!value.isList() || value.isIntList() || value.isTensorList() || value.isDoubleList() || value.isBoolList())
    return false;
  for (const c10::IValue& each : value.toListRef())
    if (each.isSymInt()) return true;
  return false;
}

c10::IValue specialised(const c10::IValue& value) {
  if (!has_symbols(value)) return value;
  if (value.isSymInt()) return static_cast<int64_t>(dim_of(value));
  if (value.isSymFloat()) return value.toSymFloat().guard_float(__FILE__, __LINE__);
  if (value.isSymBool()) return value.toSymBool().guard_bool(__FILE__, __LINE__);
  if (value.isScalar()) {
    const c10::Scalar number = value.toScalar();
    return number.isFloatingPoint() ? c10::IValue(number.toDouble()) : c10::IValue(number.toLong());
  }
  c10::List<int64_t> numbers;
  for (const c10::IValue& each : value.toListRef()) numbers.push_back(dim_of(each));
  return numbers;
}

}  // namespace braze::capture
