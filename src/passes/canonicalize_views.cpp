#include "passes/canonicalize_views.h"

#include <algorithm>

#include "ir/shape_env.h"
#include "ir/shapes.h"
#include "passes/rewrite.h"

namespace braze::passes {

using namespace ir;

namespace {

using enum OpKind;

/// The node's operand 0, if it is the result of such a node too.
Node* inner_of(const Node& node, Op op) {
  Node* inner = node.operands[0]->def;
  return inner->op == op ? inner : nullptr;
}
Value* operand_of(const Node* node) {
  return Graph::resolve(node->operands[0]);
}

Value* drop_same_shape(Rewriter&, Node& node) {
  return Rewriter::drop_to(node, node.operands[0]);
}

Value* drop_identity_permute(Rewriter&, Node& node) {
  return std::ranges::is_sorted(node.ints_attr("dims")) ? Rewriter::drop_to(node, node.operands[0]) : nullptr;
}

Value* drop_whole_slice(Rewriter&, Node& node) {
  // The shape is the operand's, so start is 0 and step 1, or there is at most one element along dim.
  return Rewriter::drop_to(node, node.operands[0]);
}

Value* drop_empty_flip(Rewriter& rewriter, Node& node) {
  const auto sizes = node.results[0].type->sizes.symbolic();
  const SizeRules rules = rewriter.graph().prove();
  const bool stays =
      std::ranges::all_of(node.ints_attr("dims"), [&](int64_t dim) { return rules.at_most(sizes[dim], 1); });
  return stays ? Rewriter::drop_to(node, node.operands[0]) : nullptr;
}

Value* merge_permutes(Rewriter& rewriter, Node& node) {
  const Node* inner = inner_of(node, Op::permute);
  if (!inner) return nullptr;
  const auto first = inner->ints_attr("dims");
  Sizes dims;
  for (const int64_t dim : node.ints_attr("dims")) dims.push_back(first[dim]);
  return rewriter.like(node, Op::permute, {operand_of(inner)}, {{"dims", std::span<const int64_t>(dims)}});
}

/// reshape of reshape and expand of expand: the last shape is all that counts.
Value* merge_same(Rewriter& rewriter, Node& node) {
  const Node* inner = inner_of(node, node.op);
  return inner ? rewriter.like(node, node.op, {operand_of(inner)}) : nullptr;
}

Value* merge_slices(Rewriter& rewriter, Node& node) {
  const Node* inner = inner_of(node, Op::slice);
  if (!inner || inner->int_attr("dim") != node.int_attr("dim")) return nullptr;
  const Size step = inner->size_attr("step");
  return rewriter.like(node, Op::slice, {operand_of(inner)},
                       {{"dim", node.int_attr("dim")},
                        {"start", inner->size_attr("start") + step * node.size_attr("start")},
                        {"step", step * node.size_attr("step")}});
}

/// A part of a tensor into which another part was written: of what was written, or of what was there before.
Value* slice_past_scatter(Rewriter& rewriter, Node& node) {
  const Node* inner = inner_of(node, Op::slice_scatter);
  if (!inner || inner->int_attr("dim") != node.int_attr("dim")) return nullptr;
  struct Range {
    Size start, step, count;
    Size last() const { return start + (count - 1) * step; }
    bool operator==(const Range&) const = default;
  };
  const auto dim = static_cast<size_t>(node.int_attr("dim"));
  const SizeRules rules = rewriter.graph().prove();
  const auto range_of = [&](const Node& of, const Type& part) {
    return Range{of.size_attr("start"), of.size_attr("step"), part.sizes.symbolic()[dim]};
  };
  Value* written = Graph::resolve(inner->operands[1]);
  const Range read = range_of(node, *node.results[0].type), write = range_of(*inner, *written->type);
  if (read.count == 0 || write.count == 0) return nullptr;
  if (read == write) {
    if (Value* same = Rewriter::drop_to(node, written)) return same;
    return rewriter.like(node, Op::cast, {written});  // laid out otherwise
  }
  if (!rules.less(read.last(), write.start) && !rules.less(write.last(), read.start)) return nullptr;
  return rewriter.like(node, Op::slice, {operand_of(inner)},
                       {{"dim", node.int_attr("dim")}, {"start", read.start}, {"step", read.step}});
}

/// Both reverse: what is named by one of them stays reversed.
Value* merge_flips(Rewriter& rewriter, Node& node) {
  const Node* inner = inner_of(node, Op::flip);
  if (!inner) return nullptr;
  Sizes dims;
  std::ranges::set_symmetric_difference(inner->ints_attr("dims"), node.ints_attr("dims"), std::back_inserter(dims));
  return rewriter.like(node, Op::flip, {operand_of(inner)}, {{"dims", std::span<const int64_t>(dims)}});
}

/// Elementwise ops broadcast by themselves: an expanded operand can go in as it is if the others still give the
/// result its shape.
Value* drop_operand_expand(Rewriter& rewriter, Node& node) {
  const Type* type = node.results[0].type;
  const SizeRules rules = rewriter.graph().prove();
  for (size_t k = 0; k < node.operands.size(); ++k) {
    if (node.operands[k]->def->op != Op::expand) continue;
    Value* small = operand_of(node.operands[k]->def);
    const auto own = small->type->sizes.symbolic();
    std::optional<SymbolicSizes> sizes(std::in_place, own.begin(), own.end());
    for (size_t other = 0; other < node.operands.size() && sizes; ++other)
      if (other != k) sizes = broadcast(*sizes, node.operands[other]->type->sizes.symbolic(), rules);
    if (!sizes || !rules.equal(*sizes, type->sizes.symbolic())) continue;
    std::vector<Value*> operands(node.operands.begin(), node.operands.end());
    operands[k] = small;
    return rewriter.graph().create(node.op, operands, node.attrs, std::span(&type, 1))->result();
  }
  return nullptr;
}

constexpr Rule rules[] = {
    {one_of<Op::reshape, Op::expand>, drop_same_shape, "drop_same_shape", "the same type"},
    {one_of<Op::permute>, drop_identity_permute, "drop_identity_permute", "every dimension in its place"},
    {one_of<Op::slice>, drop_whole_slice, "drop_whole_slice", "the same type: every element in its place"},
    {one_of<Op::flip>, drop_empty_flip, "drop_empty_flip", "reverses no two elements"},
    {one_of<Op::permute>, merge_permutes, "merge_permutes", "index maps compose"},
    {one_of<Op::reshape, Op::expand>, merge_same, "merge_same", "row-major order is kept; broadcasts compose"},
    {one_of<Op::slice>, merge_slices, "merge_slices", "index maps compose"},
    {one_of<Op::slice>, slice_past_scatter, "slice_past_scatter", "the same elements, read where they come from",
     true},
    {one_of<Op::flip>, merge_flips, "merge_flips", "reversing twice does nothing"},
    {of_kind<Binary, Compare, Ternary>, drop_operand_expand, "drop_operand_expand", "elementwise ops broadcast"},
};

}  // namespace

std::span<const Rule> view_rules() {
  return rules;
}

void canonicalize_views(Graph& graph) {
  rewrite(graph, rule_groups()[1]);
}

}  // namespace braze::passes
