#include "passes/causal_masks.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "passes/bounds.h"

namespace braze::passes {

using namespace ir;

namespace {

/// Masks are made by fewer operators.
constexpr int max_depth = 16;
/// Numbers stay far from where they would overflow.
constexpr int64_t most = int64_t{1} << 40;

/// An integer by its place: constant + sum of factors[dim] * index[dim].
struct Form {
  int64_t constant = 0;
  std::vector<int64_t> factors;
};
using Result = std::optional<Form>;

Result of(const Value* value, int depth);

bool is_one(Size size) {
  return size == Size(1);
}

/// Aligned to the right, as operands of an elementwise operator are. An index into a dimension of one element is 0.
Form spread(const Form& form, const Type& from, size_t rank) {
  Form wide{form.constant, std::vector<int64_t>(rank)};
  const size_t added = rank - form.factors.size();
  for (size_t dim = 0; dim < form.factors.size(); ++dim)
    wide.factors[added + dim] = is_one(from.sizes.symbolic()[dim]) ? 0 : form.factors[dim];
  return wide;
}

/// a + times * b.
Result sum(Form a, const Form& b, int64_t times) {
  a.constant += times * b.constant;
  for (size_t dim = 0; dim < a.factors.size(); ++dim) a.factors[dim] += times * b.factors[dim];
  if (std::abs(a.constant) > most) return std::nullopt;
  for (const int64_t factor : a.factors)
    if (std::abs(factor) > most) return std::nullopt;
  return a;
}

/// Where dimensions of one element alone come and go.
Result of_reshape(const Form& form, const Type& from, const Type& to) {
  Form made{form.constant, std::vector<int64_t>(static_cast<size_t>(to.rank()))};
  const auto before = from.sizes.symbolic(), after = to.sizes.symbolic();
  size_t k = 0;
  for (size_t dim = 0; dim < after.size(); ++dim) {
    if (is_one(after[dim])) continue;
    while (k < before.size() && is_one(before[k])) ++k;
    if (k == before.size() || before[k] != after[dim]) return std::nullopt;
    made.factors[dim] = form.factors[k++];
  }
  while (k < before.size() && is_one(before[k])) ++k;
  return k == before.size() ? Result(made) : std::nullopt;
}

/// Of what a view shows, by its own places.
Result of_view(const Node& node, const Form& form) {
  const Type &from = *Graph::resolve(node.operands[0])->type, &to = *node.results[0].type;
  switch (node.op) {
    case Op::reshape: return of_reshape(form, from, to);
    case Op::expand: return spread(form, from, static_cast<size_t>(to.rank()));
    case Op::permute: {
      Form made{form.constant, {}};
      for (const int64_t dim : node.ints_attr("dims"))
        made.factors.push_back(form.factors[static_cast<size_t>(dim)]);
      return made;
    }
    default: return std::nullopt;
  }
}

Result of(const Value* value, int depth) {
  const Node& node = *value->def;
  const Type& type = *value->type;
  if (depth == 0 || type.dtype != DType::i64) return std::nullopt;
  if (node.op == Op::iota) return Form{0, {1}};
  if (node.op == Op::scalar) {
    const int64_t number = node.number_attr("value").as_int();
    return std::abs(number) <= most ? Result(Form{number, {}}) : std::nullopt;
  }
  if (info(node.op).kind == OpKind::View) {
    const Result form = of(Graph::resolve(node.operands[0]), depth - 1);
    return form ? of_view(node, *form) : form;
  }
  if (node.op != Op::add && node.op != Op::sub && node.op != Op::mul) return std::nullopt;
  const Value *left = Graph::resolve(node.operands[0]), *right = Graph::resolve(node.operands[1]);
  const Result a = of(left, depth - 1), b = of(right, depth - 1);
  if (!a || !b) return std::nullopt;
  const auto rank = static_cast<size_t>(type.rank());
  const Form wide_a = spread(*a, *left->type, rank), wide_b = spread(*b, *right->type, rank);
  if (node.op == Op::add) return sum(wide_a, wide_b, 1);
  if (node.op == Op::sub) return sum(wide_a, wide_b, -1);
  const Form none{0, std::vector<int64_t>(rank)};
  if (wide_a.factors == none.factors) return sum(none, wide_b, wide_a.constant);
  if (wide_b.factors == none.factors) return sum(none, wide_a, wide_b.constant);
  return std::nullopt;
}

/// What is not negative exactly where the truth value is true.
Result of_truth(const Value* value, int depth) {
  const Node& node = *value->def;
  if (depth == 0 || value->type->dtype != DType::b8) return std::nullopt;
  if (info(node.op).kind == OpKind::View) {
    const Result form = of_truth(Graph::resolve(node.operands[0]), depth - 1);
    return form ? of_view(node, *form) : form;
  }
  const bool is_less = node.op == Op::le || node.op == Op::lt, is_strict = node.op == Op::gt || node.op == Op::lt;
  if (!is_less && !is_strict && node.op != Op::ge && node.op != Op::bitwise_and) return std::nullopt;
  const auto rank = static_cast<size_t>(value->type->rank());
  const Value *left = Graph::resolve(node.operands[0]), *right = Graph::resolve(node.operands[1]);
  if (node.op == Op::bitwise_and) {
    if (is_throughout(left, 1)) std::swap(left, right);
    const Result form = is_throughout(right, 1) ? of_truth(left, depth - 1) : std::nullopt;
    return form ? spread(*form, *left->type, rank) : form;
  }
  if (is_less) std::swap(left, right);
  const Result a = of(left, depth - 1), b = of(right, depth - 1);
  if (!a || !b) return std::nullopt;
  const Result form = sum(spread(*a, *left->type, rank), spread(*b, *right->type, rank), -1);
  return form && is_strict ? sum(*form, Form{1, std::vector<int64_t>(rank)}, -1) : form;
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
