#include "passes/cse.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace braze::passes {

using namespace ir;

namespace {

/// Equal nodes compute equal values. Operands are resolved.
struct NodeHash {
  size_t operator()(const Node* node) const {
    uint64_t hash = static_cast<uint64_t>(node->op);
    const auto mix = [&hash](uint64_t word) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 29;
    };
    uint64_t operands = 0;
    for (const Value* operand : node->operands)
      // A sum does not depend on the order, which commuting ops want; the others lose little.
      operands += (operand->id + 1) * 0xbf58476d1ce4e5b9ull;
    mix(operands);
    for (const Value& result : node->results) mix(result.type->id);
    for (const Attr& attr : node->attrs) {
      mix(std::hash<std::string_view>()(attr.name));
      std::visit([&](const auto& value) { mix(bits(value)); }, attr.value);
    }
    return hash;
  }

 private:
  static uint64_t bits(bool value) { return value; }
  static uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }
  static uint64_t bits(const Number& value) {
    return value.floating ? std::bit_cast<uint64_t>(value.f) : static_cast<uint64_t>(value.i);
  }
  static uint64_t bits(Size value) { return value.bits(); }
  static uint64_t bits(std::span<const Size> values) {
    uint64_t hash = values.size();
    for (const Size value : values) hash = hash * 31 + value.bits();
    return hash;
  }
  static uint64_t bits(std::string_view value) { return std::hash<std::string_view>()(value); }
  static uint64_t bits(std::span<const int64_t> values) {
    uint64_t hash = values.size();
    for (const int64_t value : values) hash = hash * 31 + static_cast<uint64_t>(value);
    return hash;
  }
};

struct SameAttrValue {
  const AttrValue& other;
  bool operator()(const Number& value) const { return value.same_bits(std::get<Number>(other)); }
  bool operator()(std::span<const int64_t> value) const {
    return std::ranges::equal(value, std::get<std::span<const int64_t>>(other));
  }
  bool operator()(std::span<const Size> value) const {
    return std::ranges::equal(value, std::get<std::span<const Size>>(other));
  }
  template <typename T>
  bool operator()(const T& value) const {
    return value == std::get<T>(other);
  }
};

bool same_attr(const Attr& a, const Attr& b) {
  return a.name == b.name && a.value.index() == b.value.index() && std::visit(SameAttrValue{b.value}, a.value);
}

struct NodeEqual {
  bool operator()(const Node* a, const Node* b) const {
    const auto same_type = [](const Value& x, const Value& y) { return x.type == y.type; };
    return a->op == b->op && same_operands(*a, *b) && std::ranges::equal(a->results, b->results, same_type) &&
           std::ranges::equal(a->attrs, b->attrs, same_attr);
  }

 private:
  static bool same_operands(const Node& a, const Node& b) {
    if (std::ranges::equal(a.operands, b.operands)) return true;
    return has(a.op, traits::commutes) && a.operands[0] == b.operands[1] && a.operands[1] == b.operands[0];
  }
};

/// Not ATen's: whoever wrote it may count on being called as often as the program says.
bool is_others_operator(const Node& node) {
  return node.op == Op::call && !node.text_attr("target").starts_with("aten::");
}

/// Values of types that no kernel copies, and whose memory is given away as a result: each result needs its own.
class GivenAway {
 public:
  explicit GivenAway(const Graph& graph) {
    for (const Value* output : graph.outputs())
      if (!is_kernel_dtype(output->type->dtype)) given_.insert(output);
  }
  bool are_both(const Node& a, const Node& b) const { return has(a) && has(b); }
  void merge(const Node& into, const Node& node) {
    for (size_t k = 0; k < node.results.size(); ++k)
      if (given_.contains(&node.results[k])) given_.insert(&into.results[k]);
  }

 private:
  bool has(const Node& node) const {
    return !given_.empty() &&
           std::ranges::any_of(node.results, [&](const Value& result) { return given_.contains(&result); });
  }
  std::unordered_set<const Value*> given_;
};

}  // namespace

void cse(Graph& graph) {
  GivenAway given(graph);
  std::unordered_set<Node*, NodeHash, NodeEqual> seen;
  seen.reserve(graph.node_count());
  for_each_node(graph, [&](Node* node) {
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    if (node->has_effect() || is_others_operator(*node)) return;
    const auto [first, is_new] = seen.insert(node);
    if (is_new || given.are_both(**first, *node)) return;
    given.merge(**first, *node);
    for (size_t k = 0; k < node->results.size(); ++k) graph.replace(node->result(k), (*first)->result(k));
    graph.erase(node);
  });
  graph.apply_replacements();
}

}  // namespace braze::passes
