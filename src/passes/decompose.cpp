#include "passes/decompose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "ir/infer.h"
#include "support/error.h"

namespace braze::passes {

using namespace ir;

namespace {

using Dims = std::span<const int64_t>;

/// Writes the parts of one composite in front of it, in its compute dtype.
class Parts {
 public:
  Parts(Graph& graph, Node& node)
      : graph_(graph), node_(node), shape_(node.operands[0]->type), dtype_(compute_dtype(shape_->dtype)) {}

  Value* operand(size_t k) { return cast(node_.operands[k], dtype_); }

  Value* number(double value) { return graph_.scalar(dtype_, Number::of(value), shape_->device); }

  Value* unary(Op op, Value* x) { return add(op, {x}); }
  Value* binary(Op op, Value* x, Value* y) { return add(op, {x, y}); }

  /// Over `dims`, which stay with size 1.
  Value* reduce(Op op, Value* x, Dims dims) { return add(op, {x}, {{"dims", dims}, {"keepdim", true}}); }

  /// x - its largest along `dims`, at most 0. Code generation may contract a product and the subtraction into one
  /// fma, which would give what rounding took from the largest: far beyond exp's range for products of 1e10 and
  /// more. An added 0 takes the product instead.
  Value* below_largest(Value* x, Dims dims) {
    Value* largest = reduce(Op::amax, x, dims);
    Value* from = x;
    while (info(from->def->op).kind == OpKind::View || from->def->op == Op::neg)
      from = Graph::resolve(from->def->operands[0]);
    return binary(Op::sub, from->def->op == Op::mul ? binary(Op::add, x, number(0)) : x, largest);
  }

  Value* mean(Value* x, Dims dims) {
    const Size parts = count(dims);
    if (is_multiplied(parts)) return binary(Op::mul, reduce(Op::sum, x, dims), part(parts, 0));
    return binary(Op::div, reduce(Op::sum, x, dims), number(parts));
  }

  /// Whether a sum is multiplied by part() of that instead of divided. On a GPU, where it is a number, as eager's
  /// kernels have it: a division rounded once is a subroutine there, which takes longer to compile than all the
  /// rest of a layer norm.
  bool is_multiplied(Size count) const { return shape_->device.kind == DeviceKind::cuda && count.is_constant(); }

  /// Whether eager's kernel makes the variance of a row from those of its parts, as wide as vectors: it multiplies
  /// the square of a part's mean by the number of elements so far, 0 of them at first, so that what overflows is
  /// not infinite, but NaN. Source: RowwiseMomentsImpl in ATen/native/cpu/moments_utils.h.
  bool is_merged_from_parts(Size count) const {
    if (shape_->device.kind != DeviceKind::cpu || !count.is_constant()) return false;
    const int64_t lanes = 32 / byte_size(shape_->dtype), number = count.constant();
    return number > 2 && (number <= lanes || number % lanes == 0);
  }

  /// 1 / max(0, count - less)
  Value* part(Size count, double less) {
    const double parts = std::max(0.0, static_cast<double>(count.constant()) - less);
    return number(dtype_ == DType::f64 ? 1 / parts : double{1 / static_cast<float>(parts)});
  }

  /// How many elements of operand 0 go into one result.
  Size count(Dims dims) const {
    Size product = 1;
    for (const int64_t dim : dims) product = product * shape_->sizes.symbolic()[dim];
    return product;
  }

  Value* number(Size size) {
    if (size.is_constant()) return number(static_cast<double>(size.constant()));
    return cast(whole_number(size), dtype_);
  }

  /// max(0, size - less), rounded once.
  Value* number_above_zero(Size size, double less) {
    if (size.is_constant()) return number(std::max(0.0, static_cast<double>(size.constant()) - less));
    if (less == std::floor(less) && std::fabs(less) < 1e15)
      return number(max(Size(0), size - static_cast<int64_t>(less)));
    const auto exact = [this](double value) {
      return graph_.scalar(DType::f64, Number::of(value), shape_->device);
    };
    Value* left = graph_.add(Op::sub, {cast(whole_number(size), DType::f64), exact(less)});
    return cast(graph_.add(Op::maximum, {left, exact(0)}), dtype_);
  }

  /// Gives result `k` of the composite its new value: converted and shaped as its type says.
  void result(size_t k, Value* value) {
    Value* old = node_.result(k);
    const auto wanted = old->type->sizes.symbolic();
    if (!std::ranges::equal(value->type->sizes.symbolic(), wanted))
      value = graph_.add(Op::reshape, {value}, {}, {.sizes = {{wanted.begin(), wanted.end()}}});
    value = cast(value, old->type->dtype);
    if (value->type != old->type) value = graph_.create(Op::reshape, {value}, {}, old->type);
    graph_.replace(old, value);
  }

 private:
  Value* whole_number(Size size) { return graph_.add(Op::size, {}, {{"of", size}}, {.device = shape_->device}); }

  Value* cast(Value* x, DType dtype) {
    if (x->type->dtype == dtype) return x;
    const auto strides = x->type->strides.symbolic();
    return graph_.add(Op::cast, {x}, {}, {.dtype = dtype, .strides = {{strides.begin(), strides.end()}}});
  }

  /// Values of the full shape are laid out as the composite's result or operand.
  Value* add(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs = {}) {
    const Type* const like[] = {node_.results[0].type, shape_};
    return graph_.add(op, operands, attrs, {.like = like});
  }

  Graph& graph_;
  Node& node_;
  const Type* shape_;  ///< Of operand 0.
  DType dtype_;
};

/// 0.5*x*(1 + erf(x/sqrt(2))), or with tanh: Hendrycks and Gimpel, "Gaussian error linear units", 2016.
void open_gelu(Parts& p, const Node& node) {
  Value* x = p.operand(0);
  Value* inner;
  if (node.bool_attr("tanh")) {
    const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    Value* cube = p.binary(Op::mul, p.binary(Op::mul, x, x), x);
    Value* sum = p.binary(Op::add, x, p.binary(Op::mul, cube, p.number(0.044715)));
    inner = p.unary(Op::tanh, p.binary(Op::mul, sum, p.number(beta)));
  } else {
    inner = p.unary(Op::erf, p.binary(Op::mul, x, p.number(std::numbers::sqrt2 / 2)));
  }
  Value* half = p.binary(Op::mul, x, p.number(0.5));
  p.result(0, p.binary(Op::mul, half, p.binary(Op::add, inner, p.number(1))));
}

/// x / (1 + exp(-x)): NaN for -inf, as in eager.
void open_silu(Parts& p, const Node&) {
  Value* x = p.operand(0);
  p.result(0, p.binary(Op::div, x, p.binary(Op::add, p.unary(Op::exp, p.unary(Op::neg, x)), p.number(1))));
}

void open_mean(Parts& p, const Node& node) {
  p.result(0, p.mean(p.operand(0), node.ints_attr("dims")));
}

void open_var(Parts& p, const Node& node) {
  const Dims dims = node.ints_attr("dims");
  Value* x = p.operand(0);
  Value* off = p.binary(Op::sub, x, p.mean(x, dims));
  Value* squares = p.reduce(Op::sum, p.binary(Op::mul, off, off), dims);
  const double correction = node.double_attr("correction", 1);
  if (p.is_multiplied(p.count(dims)))
    return p.result(0, p.binary(Op::mul, squares, p.part(p.count(dims), correction)));
  // Not above 0: 0/0 is NaN, as in eager.
  Value* divisor = p.number_above_zero(p.count(dims), correction);
  p.result(0, p.binary(Op::div, squares, divisor));
}

/// One division a row instead of one an element: the sum is between 1 and the row's length.
void open_softmax(Parts& p, const Node& node) {
  const int64_t dim[] = {node.int_attr("dim")};
  Value* x = p.operand(0);
  Value* e = p.unary(Op::exp, p.below_largest(x, dim));
  p.result(0, p.binary(Op::mul, e, p.unary(Op::reciprocal, p.reduce(Op::sum, e, dim))));
}

void open_log_softmax(Parts& p, const Node& node) {
  const int64_t dim[] = {node.int_attr("dim")};
  Value* x = p.operand(0);
  Value* off = p.below_largest(x, dim);
  Value* sum = p.reduce(Op::sum, p.unary(Op::exp, off), dim);
  p.result(0, p.binary(Op::sub, off, p.unary(Op::log, sum)));
}

/// Ba, Kiros, Hinton, "Layer normalization", 2016.
void open_layer_norm(Parts& p, const Node& node) {
  std::vector<int64_t> dims;
  const int64_t rank = node.operands[0]->type->rank();
  for (int64_t dim = rank - node.int_attr("rank"); dim < rank; ++dim) dims.push_back(dim);
  Value* x = p.operand(0);
  Value* mean = p.mean(x, dims);
  Value* off = p.binary(Op::sub, x, mean);
  Value* var = p.mean(p.binary(Op::mul, off, off), dims);
  if (p.is_merged_from_parts(p.count(dims))) var = p.binary(Op::add, var, p.binary(Op::mul, var, p.number(0)));
  Value* rstd = p.unary(Op::rsqrt, p.binary(Op::add, var, p.number(node.double_attr("eps", 0))));
  Value* y = p.binary(Op::mul, off, rstd);
  if (node.operands.size() > 1) y = p.binary(Op::mul, y, p.operand(1));
  if (node.operands.size() > 2) y = p.binary(Op::add, y, p.operand(2));
  p.result(0, y);
  p.result(1, mean);
  p.result(2, rstd);
}

/// log(softmax(x)), to be put in front of the log: log_softmax(x), which takes one logarithm a row instead of one
/// an element and loses nothing of probabilities that are denormal; but where softmax(x) is 0, -inf, as its log is.
/// Null for anything else, and where rounding to 16 bits comes between the two.
Value* log_of_softmax(Graph& graph, const Node& log) {
  if (log.op != Op::log) return nullptr;
  Value* softmax = log.operands[0];
  const Type* type = softmax->type;
  if (softmax->def->op != Op::softmax || log.results[0].type != type) return nullptr;
  Value* x = Graph::resolve(softmax->def->operands[0]);
  if (compute_dtype(type->dtype) != type->dtype || x->type->dtype != type->dtype) return nullptr;
  Value* wanted = graph.create(Op::log_softmax, {x}, {{"dim", softmax->def->int_attr("dim")}}, type);
  Value* zero = graph.scalar(type->dtype, Number::of(0), type->device);
  Value* lowest = graph.scalar(type->dtype, Number::of(-std::numeric_limits<double>::infinity()), type->device);
  const Type* truth =
      graph.symbolic_type(DType::b8, type->device, type->sizes.symbolic(), type->strides.symbolic());
  return graph.create(Op::where, {graph.create(Op::eq, {softmax, zero}, {}, truth), lowest, wanted}, {}, type);
}

void use_log_softmax(Graph& graph) {
  for_each_node(graph, [&](Node* node) {
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    graph.set_insertion_point(node);
    graph.set_source(node->source);
    Value* value = log_of_softmax(graph, *node);
    if (!value) return;
    graph.replace(node->result(0), value);
    graph.erase(node);
  });
}

struct Opening {
  Op op;
  void (*open)(Parts& parts, const Node& node);
};
constexpr Opening openings[] = {
    {Op::gelu, open_gelu},
    {Op::silu, open_silu},
    {Op::mean, open_mean},
    {Op::var, open_var},
    {Op::softmax, open_softmax},
    {Op::log_softmax, open_log_softmax},
    {Op::layer_norm, open_layer_norm},
};

}  // namespace

void decompose(Graph& graph) {
  Node* const insertion_point = graph.insertion_point();
  const std::string_view source = graph.source();
  use_log_softmax(graph);
  for_each_node(graph, [&](Node* node) {
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    if (info(node->op).kind != OpKind::Composite) return;
    const auto opening = std::ranges::find(openings, node->op, &Opening::op);
    BRAZE_CHECK(opening != std::end(openings), "no way to open ", info(node->op).name);
    graph.set_insertion_point(node);
    graph.set_source(node->source);
    Parts parts(graph, *node);
    opening->open(parts, *node);
    graph.erase(node);
  });
  graph.set_insertion_point(insertion_point);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace braze::passes
