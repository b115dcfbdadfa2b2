#include "passes/causal_masks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "passes/affine.h"
#include "passes/bounds.h"

namespace braze::passes {

using namespace ir;

namespace {

/// Masks are made by fewer operators.
constexpr int max_depth = 16;
using Result = std::optional<Affine>;

/// What is not negative exactly where the truth value is true.
Result of_truth(const Value* value, int depth) {
  const Node& node = *value->def;
  if (depth == 0 || value->type->dtype != DType::b8) return std::nullopt;
  if (info(node.op).kind == OpKind::View) {
    const Result form = of_truth(Graph::resolve(node.operands[0]), depth - 1);
    return form ? affine_view(node, *form) : form;
  }
  const bool is_less = node.op == Op::le || node.op == Op::lt, is_strict = node.op == Op::gt || node.op == Op::lt;
  if (!is_less && !is_strict && node.op != Op::ge && node.op != Op::bitwise_and) return std::nullopt;
  const auto rank = static_cast<size_t>(value->type->rank());
  const Value *left = Graph::resolve(node.operands[0]), *right = Graph::resolve(node.operands[1]);
  if (node.op == Op::bitwise_and) {
    if (is_throughout(left, 1)) std::swap(left, right);
    const Result form = is_throughout(right, 1) ? of_truth(left, depth - 1) : std::nullopt;
    return form ? affine_spread(*form, rank) : form;
  }
  if (is_less) std::swap(left, right);
  const Result a = affine(left), b = affine(right);
  if (!a || !b) return std::nullopt;
  Result form = affine_sum(affine_spread(*a, rank), affine_spread(*b, rank), -1);
  if (form && is_strict) --form->constant;
  return form;
}

}  // namespace

bool is_causal(const Value* mask) {
  const Result form = of_truth(mask, max_depth);
  const size_t rank = form ? form->factors.size() : 0;
  if (rank < 2) return false;
  // i * step + constant >= j * step, with a constant below the step.
  const int64_t step = form->factors[rank - 2];
  if (step <= 0 || form->factors[rank - 1] != -step || form->constant < 0 || form->constant >= step) return false;
  return std::all_of(form->factors.begin(), form->factors.end() - 2, [](int64_t factor) { return factor == 0; });
}

}  // namespace braze::passes
