#include "passes/gelu_of_products.h"

#include <algorithm>

#include "passes/dead_code.h"
#include "passes/uses.h"

namespace braze::passes {

using namespace ir;

namespace {

bool is_candidate(const Node& node) {
  if (node.op != Op::addmm || node.find("layouts")) return false;
  const Type& out = *node.results[0].type;
  const Value* bias = Graph::resolve(node.operands[0]);
  return out.device.kind == DeviceKind::cuda && (out.dtype == DType::bf16 || out.dtype == DType::f16) &&
         out.is_contiguous() && bias->type->rank() == 1 && node.double_attr("alpha", 1) == 1 &&
         node.double_attr("beta", 1) == 1;
}

/// The gelu that alone reads the product, perhaps in another shape; null if there is none.
Node* gelu_of(const Value* value, const Uses& uses) {
  Node* reader = uses.only_reader(value);
  while (reader && reader->op == Op::reshape) reader = uses.only_reader(reader->result());
  return reader && reader->op == Op::gelu && reader->bool_attr("tanh") ? reader : nullptr;
}

/// Nobody reads it but library calls and the caller.
bool ends_kernels(const Value* value, const Uses& uses) {
  return std::ranges::all_of(uses.readers(value), [&](const Node* reader) {
    const OpKind kind = info(reader->op).kind;
    return kind == OpKind::Library || (kind == OpKind::View && ends_kernels(&reader->results[0], uses));
  });
}

}  // namespace

void gelu_of_products(Graph& graph) {
  bool has_any = false;
  for (const Node* node = graph.first(); node && !has_any; node = node->next) has_any = is_candidate(*node);
  if (!has_any) return;
  dead_code(graph);
  const Uses uses(graph);
  const std::string_view source = graph.source();
  for_each_node(graph, [&](Node* product) {
    if (!is_candidate(*product)) return;
    Node* gelu = gelu_of(product->result(), uses);
    if (!gelu || gelu->operands[0]->type != gelu->results[0].type || !ends_kernels(gelu->result(), uses)) return;
    graph.set_insertion_point(product);
    graph.set_source(gelu->source);
    const Attr attrs[] = {{"target", std::string_view("aten::_addmm_activation")},
                          {"arguments", std::string_view("$0, $1, $2, 1, 1, true")},
                          {"layouts", std::string_view("any, prefer matrix, prefer matrix")}};
    const Type* type = product->results[0].type;
    graph.replace(product->result(),
                  graph.create(Op::call, product->operands, attrs, std::span(&type, 1))->result());
    graph.replace(gelu->result(), gelu->operands[0]);
  });
  graph.set_insertion_point(nullptr);
  graph.set_source(source);
  graph.apply_replacements();
  dead_code(graph);
}

}  // namespace braze::passes
