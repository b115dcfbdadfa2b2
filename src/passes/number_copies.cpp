#include "passes/number_copies.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace braze::passes {

using namespace ir;

namespace {

bool is_number_copy(const Node& node) {
  if (node.op != Op::call || node.operands.size() != 1 || node.results.size() != 1) return false;
  if (node.text_attr("target") != "aten::_to_copy") return false;
  const Type *from = Graph::resolve(node.operands[0])->type, *to = node.results[0].type;
  return from->rank() == 0 && from->device.kind == DeviceKind::cpu && to->device.kind == DeviceKind::cuda;
}

/// What one call copies, another could copy along.
bool are_alike(const Node& one, const Node& other) {
  return one.results[0].type == other.results[0].type &&
         Graph::resolve(one.operands[0])->type->dtype == Graph::resolve(other.operands[0])->type->dtype &&
         one.text_attr("arguments") == other.text_attr("arguments");
}

/// Where nodes stand, before any is added.
class Order {
 public:
  explicit Order(const Graph& graph) {
    for (const Node* node = graph.first(); node; node = node->next) places_.emplace(node, places_.size());
  }
  bool is_before(const Value* value, const Node* node) const {
    return value->def->op == Op::input || places_.at(value->def) < places_.at(node);
  }

 private:
  std::unordered_map<const Node*, size_t> places_;
};

/// One call in the place of those of `copies`, in front of the first.
void gather(Graph& graph, const std::vector<Node*>& copies) {
  Node& first = *copies.front();
  graph.set_insertion_point(&first);
  graph.set_source(first.source);
  const Type* number = Graph::resolve(first.operands[0])->type;
  const auto all_of = [&](Device device, int64_t count) {
    return graph.contiguous_type(number->dtype, device, std::vector<int64_t>{count});
  };
  std::vector<Value*> numbers, parts;
  for (const Node* copy : copies) {
    Value* operand = Graph::resolve(copy->operands[0]);
    if (std::ranges::find(numbers, operand) != numbers.end()) continue;
    numbers.push_back(operand);
    parts.push_back(graph.create(Op::reshape, {operand}, {}, all_of(number->device, 1)));
  }
  const auto count = static_cast<int64_t>(numbers.size());
  const Type* type = all_of(number->device, count);
  const Attr along[] = {{"dim", int64_t{0}}};
  Value* together = graph.create(Op::cat, parts, along, std::span(&type, 1))->result();
  const Device device = first.results[0].type->device;
  const Type* there = all_of(device, count);
  Value* copied = graph.create(Op::call, std::span(&together, 1), first.attrs, std::span(&there, 1))->result();
  for (Node* copy : copies) {
    const auto place = std::ranges::find(numbers, Graph::resolve(copy->operands[0])) - numbers.begin();
    Value* part =
        graph.create(Op::slice, {copied}, {{"dim", int64_t{0}}, {"start", int64_t{place}}, {"step", int64_t{1}}},
                     all_of(device, 1));
    graph.replace(&copy->results[0], graph.create(Op::reshape, {part}, {}, copy->results[0].type));
  }
}

}  // namespace

void number_copies(Graph& graph) {
  std::vector<Node*> copies;
  for_each_node(graph, [&](Node* node) {
    if (is_number_copy(*node)) copies.push_back(node);
  });
  if (copies.size() < 2) return;
  const Order order(graph);
  const std::string_view source = graph.source();
  std::unordered_set<const Node*> done;
  for (Node* first : copies) {
    if (done.contains(first)) continue;
    std::vector<Node*> together;
    for (Node* copy : copies)
      if (!done.contains(copy) && are_alike(*first, *copy) &&
          order.is_before(Graph::resolve(copy->operands[0]), first))
        together.push_back(copy);
    done.insert(together.begin(), together.end());
    if (together.size() > 1) gather(graph, together);
  }
  graph.set_insertion_point(nullptr);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace braze::passes
