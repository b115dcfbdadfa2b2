#include "passes/round_halves.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace braze::passes {

using namespace ir;

namespace {

bool is_half(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

bool rounds(const Node& node) {
  const OpKind kind = info(node.op).kind;
  if (kind != OpKind::Unary && kind != OpKind::Binary && kind != OpKind::Reduction) return false;
  return is_half(node.results[0].type->dtype) && !has(node.op, traits::exact);
}

const Type* retyped(Graph& graph, const Type& type, DType dtype) {
  return graph.symbolic_type(dtype, type.device, type.sizes.symbolic(), type.strides.symbolic());
}

Value* widened(Graph& graph, Value* value) {
  const Type& type = *value->type;
  // A number keeps f32's precision, as eager computes `tensor * 0.1` with 0.1 in f32.
  if (value->def->op == Op::scalar) return graph.scalar(DType::f32, value->def->number_attr("value"), type.device);
  return graph.create(Op::cast, {value}, {}, retyped(graph, type, DType::f32));
}

/// Of finite f16 numbers it may be one beyond 65,504, which is infinite in eager.
bool may_overflow(const Node& node) {
  return node.results[0].type->dtype == DType::f16 && !has(node.op, traits::bounded);
}

/// Operators of libraries that compare elements.
constexpr std::string_view orders[] = {
    "aten::_unique", "aten::_unique2",           "aten::argsort",    "aten::bucketize",    "aten::histc",
    "aten::isin",    "aten::kthvalue",           "aten::max",        "aten::median",       "aten::min",
    "aten::mode",    "aten::nanmedian",          "aten::nonzero",    "aten::searchsorted", "aten::sort",
    "aten::topk",    "aten::unique_consecutive", "aten::unique_dim",
};

/// A small change of an operand may be a step of the result.
bool is_step(const Node& node) {
  if (node.op == Op::call) return std::ranges::find(orders, node.text_attr("target")) != std::end(orders);
  const OpKind kind = info(node.op).kind;
  if (kind == OpKind::Compare || kind == OpKind::UnaryTest) return true;
  if (node.op == Op::cast)
    return is_half(node.operands[0]->type->dtype) && !is_floating(node.results[0].type->dtype);
  return has(node.op, traits::steps);
}

/// Finds what rounds among all that `value` is made of since it was in memory: a missing rounding early on may be
/// seen in a later one.
void find_rounding(Value* value, std::unordered_set<const Value*>& seen, std::unordered_set<const Node*>& found) {
  std::vector<Value*> left{value};
  while (!left.empty()) {
    Value* const one = left.back();
    left.pop_back();
    const OpKind kind = info(one->def->op).kind;
    if (kind == OpKind::Library || kind == OpKind::Source || !is_floating(one->type->dtype)) continue;
    if (!seen.insert(one).second) continue;
    if (rounds(*one->def)) found.insert(one->def);
    for (Value* operand : one->def->operands) left.push_back(Graph::resolve(operand));
  }
}

/// \param part  The first node of a part of the graph; in its place comes what is done first of it afterwards.
template <typename Wanted>
void round(Graph& graph, Wanted wanted, Node** part = nullptr) {
  Node* const insertion_point = graph.insertion_point();
  const std::string_view source = graph.source();
  for (Node *node = graph.first(), *next; node; node = next) {
    next = node->next;
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    if (!rounds(*node) || !wanted(node)) continue;
    const Node* const previous = node->previous;
    graph.set_insertion_point(node);
    graph.set_source(node->source);
    std::vector<Value*> operands;
    for (Value* operand : node->operands) operands.push_back(widened(graph, operand));
    const Type& type = *node->results[0].type;
    const Type* wide = retyped(graph, type, DType::f32);
    Node* computed = graph.create(node->op, operands, node->attrs, {&wide, 1});
    graph.replace(node->result(), graph.create(Op::cast, {computed->result()}, {}, &type));
    if (part && *part == node) *part = previous ? previous->next : graph.first();
    graph.erase(node);
  }
  graph.set_insertion_point(insertion_point);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace

void round_halves(Graph& graph) {
  round(graph, [](const Node*) { return true; });
}

void round_halves_of_joint(Graph& graph, Node** part) {
  std::unordered_set<const Value*> seen;
  std::unordered_set<const Node*> found;
  for_each_node(graph, [&](const Node* node) {
    if (rounds(*node) && may_overflow(*node)) found.insert(node);
    if (!is_step(*node)) return;
    for (Value* operand : node->operands) find_rounding(Graph::resolve(operand), seen, found);
  });
  if (found.empty()) return;
  round(graph, [&](const Node* node) { return found.contains(node); }, part);
}

void round_halves_where_seen(Graph& graph) {
  round_halves_of_joint(graph, nullptr);
}

}  // namespace braze::passes
