#include "passes/bias_of_products.h"

#include <algorithm>

#include "ir/shape_env.h"
#include "passes/uses.h"

namespace braze::passes {

using namespace ir;

namespace {

/// One row is a matrix times a vector for either.
bool is_worth_it(const Node& product, const SizeRules& rules) {
  return rules.hint(product.results[0].type->sizes.symbolic()[0]) > 1;
}

bool is_candidate(const Node& node) {
  if (node.op != Op::addmm || node.find("layouts")) return false;
  const Type& out = *node.results[0].type;
  return out.device.kind == DeviceKind::cuda && out.dtype == DType::f32 && node.double_attr("alpha", 1) == 1 &&
         node.double_attr("beta", 1) == 1;
}

/// Through views too. A value that nobody reads is not.
bool is_read_by_kernels_alone(const Value* value, const Uses& uses) {
  const auto& readers = uses.readers(value);
  return !uses.is_result(value) && !readers.empty() && std::ranges::all_of(readers, [&](const Node* reader) {
    switch (info(reader->op).kind) {
      case OpKind::Library: return false;
      case OpKind::View: return is_read_by_kernels_alone(&reader->results[0], uses);
      default: return true;
    }
  });
}

}  // namespace

void bias_of_products(Graph& graph) {
  std::vector<Node*> products;
  for_each_node(graph, [&](Node* node) {
    if (is_candidate(*node)) products.push_back(node);
  });
  if (products.empty()) return;
  const Uses uses(graph);
  const SizeRules rules = graph.prove();
  const std::string_view source = graph.source();
  for (Node* product : products) {
    if (!is_worth_it(*product, rules) || !is_read_by_kernels_alone(product->result(), uses)) continue;
    graph.set_insertion_point(product);
    graph.set_source(product->source);
    const Type* type = product->results[0].type;
    Value* plain = graph.create(Op::mm, {product->operands[1], product->operands[2]}, {}, type);
    graph.replace(product->result(), graph.create(Op::add, {plain, product->operands[0]}, {}, type));
    graph.erase(product);
  }
  graph.set_insertion_point(nullptr);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace braze::passes
