#include "passes/simplify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ir/shape_env.h"
#include "passes/rewrite.h"

namespace braze::passes {

using namespace ir;

namespace {

DType dtype_of(const Node& node) {
  return node.results[0].type->dtype;
}
bool is_half(DType dtype) {
  return compute_dtype(dtype) != dtype;
}

Value* drop_to(const Node& node, size_t operand) {
  return Rewriter::drop_to(node, node.operands[operand]);
}

/// Operand `k` of the node, if it is the result of `op`.
Node* operand_def(const Node& node, size_t k, Op op) {
  Node* def = node.operands[k]->def;
  return def->op == op ? def : nullptr;
}
Value* operand_of(const Node* node, size_t k = 0) {
  return Graph::resolve(node->operands[k]);
}

/// For an op of two operands: drops to the one beside a constant that changes nothing.
Value* drop_neutral(const Node& node, double neutral, bool commutes) {
  if (Rewriter::is_constant(node.operands[1], neutral)) return drop_to(node, 0);
  if (commutes && Rewriter::is_constant(node.operands[0], neutral)) return drop_to(node, 1);
  return nullptr;
}

// ---- neutral elements

Value* mul_one(Rewriter&, Node& node) {
  return drop_neutral(node, 1, true);
}

Value* div_one(Rewriter&, Node& node) {
  const bool rounds = node.op != Op::div && is_floating(dtype_of(node));
  return rounds ? nullptr : drop_neutral(node, 1, false);
}

Value* add_zero(Rewriter&, Node& node) {
  return drop_neutral(node, is_floating(dtype_of(node)) ? -0.0 : 0.0, true);
}

Value* sub_zero(Rewriter&, Node& node) {
  return drop_neutral(node, 0.0, false);
}

Value* bits_zero(Rewriter&, Node& node) {
  return drop_neutral(node, 0, true);
}

Value* shift_zero(Rewriter&, Node& node) {
  return drop_neutral(node, 0, false);
}

Value* and_ones(Rewriter&, Node& node) {
  return drop_neutral(node, dtype_of(node) == DType::b8 ? 1 : -1, true);
}

// ---- cheaper ops

Value* mul_minus_one(Rewriter& rewriter, Node& node) {
  for (const size_t k : {0, 1})
    if (Rewriter::is_constant(node.operands[1 - k], -1) && node.operands[k]->type == node.results[0].type)
      return rewriter.like(node, Op::neg, {node.operands[k]});
  return nullptr;
}

/// 1/c is exact and normal for a power of two, in f32 and f64 (where bf16 and f16 compute in f32).
Value* div_power_of_two(Rewriter& rewriter, Node& node) {
  const auto number = Rewriter::constant(node.operands[1]);
  if (!number || number->f == 1) return nullptr;
  int exponent = 0;
  const bool is_power = std::fabs(std::frexp(number->f, &exponent)) == 0.5;
  const int limit = dtype_of(node) == DType::f64 ? 1000 : 120;
  if (!is_power || std::abs(exponent) > limit) return nullptr;
  const Type* type = node.operands[1]->type;
  return rewriter.like(node, Op::mul, {node.operands[0], rewriter.filled(type, Number::of(1 / number->f))});
}

Value* pow_small(Rewriter& rewriter, Node& node) {
  const auto exponent = Rewriter::constant(node.operands[1]);
  Value* x = node.operands[0];
  if (!exponent || x->type != node.results[0].type) return nullptr;
  const double n = exponent->as_double();
  if (n == 1) return x;
  if (n == 2) return rewriter.like(node, Op::mul, {x, x});
  // In bf16 and f16 the square would be rounded on the way.
  if (n == 3 && !is_half(dtype_of(node)))
    return rewriter.like(node, Op::mul, {rewriter.like(node, Op::mul, {x, x}), x});
  if (n == -1 && is_floating(dtype_of(node))) return rewriter.like(node, Op::reciprocal, {x});
  return nullptr;
}

Value* add_negated(Rewriter& rewriter, Node& node) {
  if (const Node* neg = operand_def(node, 1, Op::neg))
    return rewriter.like(node, Op::sub, {node.operands[0], operand_of(neg)});
  if (const Node* neg = operand_def(node, 0, Op::neg))
    return rewriter.like(node, Op::sub, {node.operands[1], operand_of(neg)});
  return nullptr;
}

Value* sub_negated(Rewriter& rewriter, Node& node) {
  const Node* neg = operand_def(node, 1, Op::neg);
  return neg ? rewriter.like(node, Op::add, {node.operands[0], operand_of(neg)}) : nullptr;
}

// ---- ops that undo or repeat each other

/// f(f(x)) = x.
Value* involution(Rewriter&, Node& node) {
  const Node* inner = operand_def(node, 0, node.op);
  return inner ? Rewriter::drop_to(node, operand_of(inner)) : nullptr;
}

/// f(f(x)) = f(x).
Value* idempotent(Rewriter&, Node& node) {
  return operand_def(node, 0, node.op) ? drop_to(node, 0) : nullptr;
}

Value* abs_negated(Rewriter& rewriter, Node& node) {
  const Node* neg = operand_def(node, 0, Op::neg);
  return neg ? rewriter.like(node, Op::abs, {operand_of(neg)}) : nullptr;
}

Value* same_operands(Rewriter&, Node& node) {
  return node.operands[0] == node.operands[1] ? drop_to(node, 0) : nullptr;
}

Value* integer_minus_itself(Rewriter& rewriter, Node& node) {
  if (is_floating(dtype_of(node)) || node.operands[0] != node.operands[1]) return nullptr;
  return rewriter.filled(node.results[0].type, Number::of_int(0));
}

Value* integer_times_zero(Rewriter& rewriter, Node& node) {
  if (is_floating(dtype_of(node))) return nullptr;
  for (const size_t k : {0, 1})
    if (Rewriter::is_constant(node.operands[k], 0)) return rewriter.filled(node.results[0].type, Number::of_int(0));
  return nullptr;
}

// ---- conditions

bool is_not(const Node* node) {
  return node->op == Op::logical_not || (node->op == Op::bitwise_not && node->results[0].type->dtype == DType::b8);
}

Value* not_not(Rewriter&, Node& node) {
  const Node* inner = node.operands[0]->def;
  if (!is_not(&node) || !is_not(inner)) return nullptr;
  return Rewriter::drop_to(node, operand_of(inner));  // another dtype than bool is another type
}

Value* not_equal(Rewriter& rewriter, Node& node) {
  const Node* inner = node.operands[0]->def;
  if (!is_not(&node) || (inner->op != Op::eq && inner->op != Op::ne)) return nullptr;
  return rewriter.like(node, inner->op == Op::eq ? Op::ne : Op::eq, {operand_of(inner), operand_of(inner, 1)});
}

Value* where_same(Rewriter&, Node& node) {
  return node.operands[1] == node.operands[2] ? drop_to(node, 1) : nullptr;
}

Value* where_constant(Rewriter&, Node& node) {
  const auto condition = Rewriter::constant(node.operands[0]);
  return condition ? drop_to(node, condition->as_int() != 0 ? 1 : 2) : nullptr;
}

Value* where_not(Rewriter& rewriter, Node& node) {
  const Node* condition = node.operands[0]->def;
  if (!is_not(condition) || operand_of(condition)->type->dtype != DType::b8) return nullptr;
  return rewriter.like(node, Op::where, {operand_of(condition), node.operands[2], node.operands[1]});
}

// ---- structure

Value* reduce_nothing(Rewriter&, Node& node) {
  return node.ints_attr("dims").empty() ? drop_to(node, 0) : nullptr;
}

/// The extreme of one element is that element; its dimensions of size 1 stay or go.
Value* extreme_of_one(Rewriter& rewriter, Node& node) {
  const auto sizes = node.operands[0]->type->sizes.symbolic();
  const SizeRules rules = rewriter.graph().prove();
  const bool single =
      std::ranges::all_of(node.ints_attr("dims"), [&](int64_t dim) { return rules.equal(sizes[dim], 1); });
  return single ? rewriter.like(node, Op::reshape, {node.operands[0]}) : nullptr;
}

Value* cat_parts(Rewriter& rewriter, Node& node) {
  if (node.operands.size() == 1) return drop_to(node, 0);
  std::vector<Value*> parts;
  const int64_t dim = node.int_attr("dim");
  const SizeRules rules = rewriter.graph().prove();
  std::ranges::copy_if(node.operands, std::back_inserter(parts),
                       [&](const Value* part) { return !rules.equal(part->type->sizes.symbolic()[dim], 0); });
  if (parts.size() == node.operands.size() || parts.empty()) return nullptr;
  const Type* type = node.results[0].type;
  return rewriter.graph().create(Op::cat, parts, node.attrs, std::span(&type, 1))->result();
}

Value* pad_nothing(Rewriter&, Node& node) {
  const auto is_zero = [](Size width) { return width == 0; };
  const bool nothing =
      std::ranges::all_of(node.sizes_attr("low"), is_zero) && std::ranges::all_of(node.sizes_attr("high"), is_zero);
  return nothing ? drop_to(node, 0) : nullptr;
}

Value* scatter_whole(Rewriter& rewriter, Node& node) {
  Value* source = node.operands[1];
  const auto sizes = source->type->sizes.symbolic();
  if (!rewriter.graph().prove().equal(sizes, node.results[0].type->sizes.symbolic())) return nullptr;
  return source->type == node.results[0].type ? source : rewriter.like(node, Op::cast, {source});
}

// clang-format off
constexpr Rule rules[] = {
  {one_of<Op::mul>, mul_one, "mul_one", "x*1 = x, also -0.0, inf and denormals"},
  {one_of<Op::div, Op::floor_div, Op::trunc_div>, div_one, "div_one", "x/1 = x; float floor_div rounds and stays"},
  {one_of<Op::add>, add_zero, "add_zero", "x + -0.0 = x for both zeros (x + 0.0 is not); integers: x + 0 = x"},
  {one_of<Op::sub>, sub_zero, "sub_zero", "x - 0.0 = x for both zeros (x - -0.0 is not)"},
  {one_of<Op::bitwise_or, Op::bitwise_xor>, bits_zero, "bits_zero", "x|0 = x^0 = x"},
  {one_of<Op::shift_left, Op::shift_right>, shift_zero, "shift_zero", "x<<0 = x>>0 = x"},
  {one_of<Op::bitwise_and>, and_ones, "and_ones", "x & all ones = x"},
  {one_of<Op::mul>, integer_times_zero, "integer_times_zero", "integers and bool have no NaN and no -0.0", true},
  {one_of<Op::mul>, mul_minus_one, "mul_minus_one", "x * -1 flips the sign, as neg does"},
  {one_of<Op::div>, div_power_of_two, "div_power_of_two", "1/c is exact, so both round the same real number once"},
  {one_of<Op::pow>, pow_small, "pow_small", "what eager does for x**1, 2, 3, -1: products and 1/x; integers wrap alike"},
  {one_of<Op::sub>, integer_minus_itself, "integer_minus_itself", "no inf - inf among integers", true},
  {one_of<Op::add>, add_negated, "add_negated", "x + (-y) = x - y by IEEE 754; integers wrap alike"},
  {one_of<Op::sub>, sub_negated, "sub_negated", "x - (-y) = x + y by IEEE 754; integers wrap alike"},
  {one_of<Op::neg, Op::bitwise_not>, involution, "involution", "the sign (or every bit) flips twice"},
  {one_of<Op::abs, Op::relu, Op::floor, Op::ceil, Op::round, Op::trunc>, idempotent, "idempotent", "f(f(x)) = f(x)"},
  {one_of<Op::abs>, abs_negated, "abs_negated", "|-x| = |x|; the smallest integer wraps to itself in both"},
  {one_of<Op::maximum, Op::minimum, Op::bitwise_and, Op::bitwise_or>, same_operands, "same_operands", "f(x, x) = x"},
  {one_of<Op::logical_not, Op::bitwise_not>, not_not, "not_not", "on bool"},
  {one_of<Op::logical_not, Op::bitwise_not>, not_equal, "not_equal", "!(x == y) is x != y, with NaN too (< and >= are not)"},
  {one_of<Op::where>, where_same, "where_same", "both choices are one", true},
  {one_of<Op::where>, where_constant, "where_constant", "the choice is made", true},
  {one_of<Op::where>, where_not, "where_not", "choices swapped"},
  {one_of<Op::amax, Op::amin, Op::prod, Op::any, Op::all>, reduce_nothing, "reduce_nothing", "no dims: every element alone; sum is left as below"},
  {one_of<Op::amax, Op::amin, Op::any, Op::all>, extreme_of_one, "extreme_of_one", "sum is left: 0 + -0.0 is 0.0"},
  {one_of<Op::cat>, cat_parts, "cat_parts", "empty parts add nothing", true},
  {one_of<Op::pad>, pad_nothing, "pad_nothing", "width 0 everywhere"},
  {one_of<Op::slice_scatter>, scatter_whole, "scatter_whole", "operand 1 covers all: start 0, step 1", true},
};
// clang-format on

}  // namespace

std::span<const Rule> simplify_rules() {
  return rules;
}

void simplify(Graph& graph) {
  rewrite(graph, rule_groups()[3]);
}

}  // namespace braze::passes
