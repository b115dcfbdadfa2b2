#include "passes/cast_chains.h"

#include "passes/rewrite.h"

namespace braze::passes {

using namespace ir;

namespace {

struct Range {
  int significant;  ///< Bits of the significand, or of an integer's magnitude.
  int exponent;     ///< Bits of the exponent; 0 for integers.
  bool is_signed;
};

Range range(DType dtype) {
  switch (dtype) {
    case DType::f64: return {53, 11, true};
    case DType::f32: return {24, 8, true};
    case DType::bf16: return {8, 8, true};
    case DType::f16: return {11, 5, true};
    case DType::i64: return {63, 0, true};
    case DType::i32: return {31, 0, true};
    case DType::i16: return {15, 0, true};
    case DType::i8: return {7, 0, true};
    case DType::u8: return {8, 0, false};
    case DType::b8: return {1, 0, false};
    default: return {0, 0, false};
  }
}

/// Every value of `from` is a value of `to`.
bool is_exact(DType from, DType to) {
  if (from == to) return true;
  if (!is_kernel_dtype(from) || !is_kernel_dtype(to) || to == DType::b8) return false;
  const Range a = range(from), b = range(to);
  if (is_floating(from) && !is_floating(to)) return false;
  // An integer that fits the significand also fits the range: f16 reaches 2^16 with 11 bits.
  return a.significant <= b.significant && a.exponent <= b.exponent && (!a.is_signed || b.is_signed);
}

Value* drop_identity(Rewriter&, Node& node) {
  return Rewriter::drop_to(node, node.operands[0]);
}

Value* merge(Rewriter& rewriter, Node& node) {
  const Node* inner = node.operands[0]->def;
  if (inner->op != Op::cast) return nullptr;
  Value* origin = Graph::resolve(inner->operands[0]);
  const DType from = origin->type->dtype, through = node.operands[0]->type->dtype, to = node.results[0].type->dtype;
  if (!is_exact(from, through)) return nullptr;
  const bool leaves_integers = is_integral(from) && is_floating(through) && is_integral(to);
  if (leaves_integers && !is_exact(from, to)) return nullptr;
  if (from == to && origin->type == node.results[0].type) return origin;
  return rewriter.like(node, Op::cast, {origin});
}

constexpr Rule rules[] = {
    {one_of<Op::cast>, drop_identity, "drop_identity", "the same dtype"},
    {one_of<Op::cast>, merge, "merge", "the first conversion keeps the value"},
};

}  // namespace

std::span<const Rule> cast_chain_rules() {
  return rules;
}

void cast_chains(Graph& graph) {
  rewrite(graph, rule_groups()[0]);
}

}  // namespace braze::passes
