#include "capture/size_node.h"

#include <ATen/core/ivalue.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymNodeImpl.h>

#include <cmath>
#include <optional>

#include "support/error.h"

namespace braze::capture {
namespace {

using c10::SymNode;

/// One expression, one question about expressions, or a float that was computed of numbers.
class SizeNode final : public c10::SymNodeImpl {
 public:
  explicit SizeNode(Dim dim) : dim_(dim) {}
  explicit SizeNode(ir::SizeTest test) : kind_(Kind::test), test_(test) {}
  explicit SizeNode(bool answer) : kind_(Kind::answer), number_(answer) {}
  explicit SizeNode(double number) : kind_(Kind::number), number_(number) {}

  Dim dim() const { return dim_; }

  bool is_int() override { return kind_ == Kind::size; }
  bool is_bool() override { return kind_ == Kind::test || kind_ == Kind::answer; }
  bool is_float() override { return kind_ == Kind::number; }
  bool is_nested_int() const override { return false; }
  bool has_hint() override { return true; }
  std::optional<int64_t> maybe_as_int() override { return constant_int(); }
  std::optional<int64_t> constant_int() override {
    return is_int() && dim_.is_number() ? std::optional<int64_t>(dim_) : std::nullopt;
  }
  std::optional<bool> constant_bool() override {
    return kind_ == Kind::answer ? std::optional(number_ != 0) : std::nullopt;
  }
  bool is_constant() override { return kind_ != Kind::test && (!is_int() || dim_.is_number()); }
  bool is_symbolic() override { return !is_constant(); }
  SymNode clone() override {
    SymNode copy = is_int() ? of(dim_) : kind_ == Kind::test ? of(test_) : nullptr;
    if (copy) return copy;
    return kind_ == Kind::answer ? of(number_ != 0) : of(number_);
  }

  SymNode wrap_int(int64_t number) override { return of(Dim(number)); }
  SymNode wrap_float(double number) override { return of(number); }
  SymNode wrap_bool(bool answer) override { return of(answer); }

  SymNode add(const SymNode& b) override { return of(dim_ + as_dim(b)); }
  SymNode sub(const SymNode& b) override { return of(dim_ - as_dim(b)); }
  SymNode mul(const SymNode& b) override { return is_float() ? of(number() * as_number(b)) : of(dim_ * as_dim(b)); }
  SymNode floordiv(const SymNode& b) override { return int_floordiv(b); }
  SymNode int_floordiv(const SymNode& b) override {
    const Dim divisor = as_dim(b);
    if (dim_.is_number() && divisor.is_number()) return of(Dim(ir::floor_div(dim_.size(), divisor.size())));
    return of(dim_ / divisor);
  }
  SymNode mod(const SymNode& b) override { return of(dim_ % as_dim(b)); }
  SymNode neg() override { return of(-dim_); }
  SymNode sym_min(const SymNode& b) override { return of(smaller(dim_, as_dim(b))); }
  SymNode sym_max(const SymNode& b) override { return of(larger(dim_, as_dim(b))); }
  // What is no size is computed of numbers.
  SymNode truediv(const SymNode& b) override { return of(number() / as_number(b)); }
  SymNode int_truediv(const SymNode& b) override { return truediv(b); }
  SymNode float_truediv(const SymNode& b) override { return truediv(b); }
  SymNode pow(const SymNode& b) override {
    if (!is_int() || !node(b).is_int()) return of(std::pow(number(), as_number(b)));
    return pow_by_natural(b);
  }
  SymNode float_pow(const SymNode& b) override { return of(std::pow(number(), as_number(b))); }
  SymNode pow_by_natural(const SymNode& b) override {
    Dim product = 1;
    for (int64_t left = as_dim(b); left > 0; --left) product *= dim_;
    return of(product);
  }
  SymNode sym_float() override { return of(number()); }
  SymNode ceil() override { return is_int() ? clone() : of(Dim(static_cast<int64_t>(std::ceil(number_)))); }
  SymNode floor() override { return is_int() ? clone() : of(Dim(static_cast<int64_t>(std::floor(number_)))); }

  SymNode eq(const SymNode& b) override { return compare(b, ir::equal, std::equal_to<>()); }
  SymNode ne(const SymNode& b) override { return compare(b, ir::differs, std::not_equal_to<>()); }
  SymNode lt(const SymNode& b) override { return compare(b, ir::less, std::less<>()); }
  SymNode gt(const SymNode& b) override { return compare(b, ir::greater, std::greater<>()); }
  SymNode le(const SymNode& b) override { return compare(b, ir::at_most, std::less_equal<>()); }
  SymNode ge(const SymNode& b) override { return compare(b, ir::at_least, std::greater_equal<>()); }
  SymNode sym_not() override { return kind_ == Kind::test ? of(ir::negation(test_)) : of(!bool_()); }
  SymNode sym_and(const SymNode& b) override { return of(bool_() && b->bool_()); }
  SymNode sym_or(const SymNode& b) override { return of(bool_() || b->bool_()); }
  SymNode sym_ite(const SymNode& a, const SymNode& b) override { return bool_() ? a : b; }

  int64_t guard_int(const char*, int64_t) override { return dim_; }
  double guard_float(const char*, int64_t) override { return number(); }
  bool guard_bool(const char*, int64_t) override {
    if (kind_ == Kind::answer) return number_ != 0;
    BRAZE_CHECK(kind_ == Kind::test, "a size is asked for its truth");
    return env().decide(test_, SymbolsScope::current()->why);
  }
  bool guard_size_oblivious(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool guard_or_false(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool guard_or_true(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool expect_true(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool statically_known_true(const char*, int64_t) override {
    return kind_ == Kind::answer ? number_ != 0 : env().prove(test_).value_or(false);
  }
  int64_t int_() override { return dim_; }
  bool bool_() override { return guard_bool("", 0); }
  std::string str() override {
    if (is_int()) return ir::to_text(dim_.size());
    return kind_ == Kind::test ? ir::to_text(test_) : concat(number_);
  }
  std::string _graph_repr() override { return str(); }

 private:
  enum class Kind : uint8_t { size, test, answer, number };

  template <typename Value>
  static SymNode of(Value value) {
    return c10::make_intrusive<SizeNode>(value);
  }
  static SizeNode& node(const SymNode& other) {
    auto* mine = dynamic_cast<SizeNode*>(other.get());
    if (!mine) throw UserError("braze: a symbolic size of another tracer was met");
    return *mine;
  }
  static Dim as_dim(const SymNode& other) { return node(other).dim_; }
  static double as_number(const SymNode& other) { return node(other).number(); }
  double number() const { return kind_ == Kind::size ? static_cast<double>(static_cast<int64_t>(dim_)) : number_; }
  static ir::ShapeEnv& env() {
    BRAZE_CHECK(SymbolsScope::current(), "a size of a trace is asked about outside of it");
    return *SymbolsScope::current()->env;
  }
  template <typename Ask, typename Compare>
  SymNode compare(const SymNode& b, Ask ask, Compare numbers) {
    if (is_int() && node(b).is_int()) return of(ask(dim_.size(), as_dim(b).size()));
    return of(static_cast<bool>(numbers(number(), as_number(b))));
  }

  Kind kind_ = Kind::size;
  Dim dim_;
  ir::SizeTest test_{};
  double number_ = 0;
};

}  // namespace

c10::SymInt to_sym_int(Dim dim) {
  if (dim.is_number()) return static_cast<int64_t>(dim);
  return c10::SymInt(SymNode(c10::make_intrusive<SizeNode>(dim)));
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
