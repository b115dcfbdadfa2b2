#include "capture/size_node.h"

#include <ATen/core/ivalue.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymNodeImpl.h>

#include <cmath>
#include <functional>
#include <optional>

#include "capture/asked_by.h"
#include "capture/index_map.h"
#include "capture/number.h"
#include "capture/numbers_in_calls.h"
#include "capture/recorder.h"
#include "capture/unguarded_numbers.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using c10::SymNode;

/// What is asked of sizes in PyTorch's own code: one expression (SizeNode), one question about expressions
/// (AnswerNode), or a float that was computed of them (FloatNode).
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
  /// The expression that it is equal to; nullopt: it is none of integers, or not known to be.
  virtual std::optional<Dim> exact() const { return std::nullopt; }
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
  bool bool_() override { return answer_ ? *answer_ : env().decide(test_, who_asks()); }
  std::string str() override { return answer_ ? concat(static_cast<double>(*answer_)) : ir::to_text(test_); }
  double number() const override { return answer_.value_or(false); }

 private:
  ir::SizeTest test_{};
  std::optional<bool> answer_;  ///< Known: there is no question.
};

/// What may be computed of sizes as of floats, each of which is a number then.
class ArithmeticNode : public TraceNode {
 public:
  SymNode truediv(const SymNode& b) override { return computed(b, std::divides<>(), ir::Op::div); }
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

  double guard_float(const char*, int64_t) override { return UnguardedNumbers::current() ? 0 : number(); }

 protected:
  template <typename OfNumbers>
  SymNode computed(const SymNode& b, OfNumbers numbers, ir::Op op);

 private:
  template <typename Ask, typename Compare>
  SymNode compare(const SymNode& b, Ask ask, Compare numbers) {
    const auto mine = exact(), other = node(b).exact();
    if (mine && other) return make<AnswerNode>(ask(mine->size(), other->size()));
    return make<AnswerNode>(static_cast<bool>(numbers(number(), node(b).number())));
  }
};

class SizeNode final : public ArithmeticNode {
 public:
  explicit SizeNode(Dim dim) : dim_(dim) {}

  Dim dim() const override { return dim_; }
  std::optional<Dim> exact() const override { return dim_; }
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

  int64_t guard_int(const char*, int64_t) override {
    if (UnguardedNumbers::current()) return dim_.hint();
    return ParsedNumbers::asks_for_integer(dim_) ? dim_.hint() : static_cast<int64_t>(dim_);
  }
  int64_t int_() override { return dim_; }
  std::string str() override { return ir::to_text(dim_.size()); }

 private:
  Dim dim_;
};

/// Either a number that is known, or one that the sizes of each call decide. Of that there are two forms, each made
/// when someone asks for it: its value, for which the sizes are specialised, and a number of the trace.
class FloatNode final : public ArithmeticNode, public HasNumber {
 public:
  explicit FloatNode(double number) : value_([number] { return number; }) {}
  FloatNode(std::function<double()> value, std::function<ir::Value*(ir::Graph&)> record, std::optional<Dim> exact)
      : value_(std::move(value)), record_(std::move(record)), exact_(exact) {}

  double number() const override { return value_(); }
  at::Tensor number_of_trace() const override {
    if (!record_) return {};
    Recorder& recorder = Tracer::current()->impl();
    at::Tensor tensor = recorder.wrap_fresh(record_(recorder.graph()), at::kDouble, c10::Device(c10::kCPU));
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }
  /// As an operand of arithmetic that is recorded: f64.
  ir::Value* recorded(ir::Graph& graph) const {
    return record_ ? record_(graph) : graph.scalar(ir::DType::f64, ir::Number::of(number()));
  }
  std::optional<Dim> exact() const override {
    if (record_) return exact_;
    const double number = value_();
    const bool is_whole = std::trunc(number) == number && std::abs(number) < 1e15;
    return is_whole ? std::optional<Dim>(static_cast<int64_t>(number)) : std::nullopt;
  }
  bool is_float() override { return true; }
  bool is_constant() override { return !record_; }
  SymNode clone() override { return c10::make_intrusive<FloatNode>(value_, record_, exact_); }
  SymNode sym_float() override { return clone(); }
  SymNode add(const SymNode& b) override { return computed(b, std::plus<>(), ir::Op::add); }
  SymNode sub(const SymNode& b) override { return computed(b, std::minus<>(), ir::Op::sub); }
  SymNode mul(const SymNode& b) override { return computed(b, std::multiplies<>(), ir::Op::mul); }
  SymNode neg() override { return node(wrap_float(-1)).mul(clone()); }
  SymNode pow(const SymNode& b) override { return float_pow(b); }
  SymNode ceil() override { return make<SizeNode>(Dim(static_cast<int64_t>(std::ceil(number())))); }
  SymNode floor() override { return make<SizeNode>(Dim(static_cast<int64_t>(std::floor(number())))); }
  std::string str() override { return record_ ? "a number computed of sizes" : concat(number()); }

 private:
  std::function<double()> value_;
  std::function<ir::Value*(ir::Graph&)> record_;  ///< None: it is known.
  std::optional<Dim> exact_;                      ///< Of what is not known.
};

/// A size or a float as an operand of arithmetic that is recorded: f64.
ir::Value* recorded(const SymNode& node, ir::Graph& graph) {
  if (const auto* number = dynamic_cast<const FloatNode*>(node.get())) return number->recorded(graph);
  const Dim dim = dynamic_cast<const TraceNode&>(*node).dim();
  if (dim.is_number()) return graph.scalar(ir::DType::f64, ir::Number::of(static_cast<double>(int64_t{dim})));
  return number_of(graph, dim, {}, ir::DType::f64);
}

template <typename OfNumbers>
SymNode ArithmeticNode::computed(const SymNode& b, OfNumbers numbers, ir::Op op) {
  const SymNode a = clone();
  if (node(a).is_constant() && node(b).is_constant())
    return make<FloatNode>(numbers(node(a).number(), node(b).number()));
  std::optional<Dim> exact;
  if (const auto x = node(a).exact(), y = node(b).exact(); x && y)
    if (op == ir::Op::add || op == ir::Op::sub) exact = op == ir::Op::add ? *x + *y : *x - *y;
  const auto record = [=](ir::Graph& graph) {
    const ir::Type* type = graph.type(ir::DType::f64, {}, {}, {});
    return graph.create(op, {recorded(a, graph), recorded(b, graph)}, {}, type);
  };
  return c10::make_intrusive<FloatNode>([=] { return numbers(node(a).number(), node(b).number()); }, record, exact);
}

SymNode TraceNode::wrap_int(int64_t number) {
  return make<SizeNode>(Dim(number));
}
SymNode TraceNode::wrap_float(double number) {
  return make<FloatNode>(number);
}
SymNode TraceNode::wrap_bool(bool answer) {
  return make<AnswerNode>(answer);
}
/// SymFloat::sqrt() is a power for PyTorch, and a root for sizes that are numbers. Kernels of a GPU have no powers
/// of f64.
SymNode ArithmeticNode::float_pow(const SymNode& b) {
  if (node(b).is_constant() && node(b).number() == 0.5 && !is_constant()) {
    const SymNode base = clone();
    return c10::make_intrusive<FloatNode>([=] { return std::sqrt(node(base).number()); },
                                          [=](ir::Graph& graph) {
                                            const ir::Type* type = graph.type(ir::DType::f64, {}, {}, {});
                                            return graph.create(ir::Op::sqrt, {recorded(base, graph)}, {}, type);
                                          },
                                          std::nullopt);
  }
  return computed(b, [](double x, double y) { return std::pow(x, y); }, ir::Op::pow);
}
SymNode ArithmeticNode::sym_float() {
  if (is_constant()) return make<FloatNode>(number());
  const SymNode size = clone();
  const auto value = [=] { return node(size).number(); };
  return c10::make_intrusive<FloatNode>(value, [=](ir::Graph& graph) { return recorded(size, graph); }, exact());
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

bool holds_sizes(c10::ScalarType type) {
  return type == c10::kLong || type == c10::kDouble || type == c10::kFloat || type == c10::kBFloat16;
}

}  // namespace braze::capture
