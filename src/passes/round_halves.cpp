#include "passes/round_halves.h"

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

}  // namespace

void round_halves(Graph& graph) {
  Node* const insertion_point = graph.insertion_point();
  const std::string_view source = graph.source();
  for (Node *node = graph.first(), *next; node; node = next) {
    next = node->next;
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    if (!rounds(*node)) continue;
    graph.set_insertion_point(node);
    graph.set_source(node->source);
    std::vector<Value*> operands;
    for (Value* operand : node->operands) operands.push_back(widened(graph, operand));
    const Type& type = *node->results[0].type;
    const Type* wide = retyped(graph, type, DType::f32);
    Node* computed = graph.create(node->op, operands, node->attrs, {&wide, 1});
    graph.replace(node->result(), graph.create(Op::cast, {computed->result()}, {}, &type));
    graph.erase(node);
  }
  graph.set_insertion_point(insertion_point);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace braze::passes
