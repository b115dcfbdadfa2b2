#include "passes/constant_folding.h"

#include <array>

#include "passes/evaluate.h"
#include "passes/rewrite.h"

namespace braze::passes {

using namespace ir;

namespace {

using enum OpKind;

Value* fold_elementwise(Rewriter& rewriter, Node& node) {
  std::array<Number, 3> numbers;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const auto number = Rewriter::constant(node.operands[k]);
    if (!number) return nullptr;
    numbers[k] = *number;
  }
  const Type* type = node.results[0].type;
  const auto value = evaluate(node.op, node.operands.back()->type->dtype, type->dtype,
                              std::span(numbers.data(), node.operands.size()));
  return value ? rewriter.filled(type, *value) : nullptr;
}

Value* fold_view(Rewriter& rewriter, Node& node) {
  // An expand of the scalar itself is how a filled value is written.
  const bool is_canonical = node.op == Op::expand && node.operands[0]->def->op == Op::scalar;
  const auto number = Rewriter::constant(node.operands[0]);
  if (is_canonical || !number) return nullptr;
  return rewriter.filled(node.results[0].type, *number);
}

constexpr Rule rules[] = {
    {of_kind<Unary, UnaryTest, Cast, Binary, Compare, Ternary>, fold_elementwise, "fold_elementwise",
     "computed in the dtype's own arithmetic"},
    {of_kind<View>, fold_view, "fold_view", "all elements are the same number"},
};

}  // namespace

std::span<const Rule> constant_folding_rules() {
  return rules;
}

void constant_folding(Graph& graph) {
  rewrite(graph, rule_groups()[2]);
}

}  // namespace braze::passes
