#include "passes/partial_backward.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "ir/clone.h"
#include "ir/shape_env.h"
#include "support/error.h"

namespace braze::passes {

using namespace ir;

namespace {

bool same_elements(const Type& one, const Type& other) {
  return one.dtype == other.dtype && std::ranges::equal(one.sizes.symbolic(), other.sizes.symbolic());
}

/// Takes out of a graph, in place, what depends on undefined tangents alone.
class Undefined {
 public:
  /// \param whole  where the graph's tangents are.
  Undefined(Graph& graph, const Backward& whole, const Bits& defined)
      : graph_(graph), states_(graph.value_limit(), State::no_tangent) {
    const std::span<const Input> inputs(graph.inputs());
    for (size_t t = 0; t < whole.tangents; ++t)
      states_[inputs[whole.first_tangent + t].value->id] = defined[t] ? State::defined : State::undefined;
    for (const Input& input : inputs.last(whole.never_given)) states_[input.value->id] = State::undefined;
  }

  void run() {
    for_each_node(graph_, [&](Node* node) { visit(*node); });
    graph_.set_insertion_point(nullptr);
  }
  bool is_undefined(const Value& value) const { return state(value) == State::undefined; }
  /// What is left of a sum, as it lay.
  Value* as_it_lay(Value* value) const {
    const auto found = rests_.find(value);
    return found == rests_.end() ? value : found->second;
  }

 private:
  enum class State : uint8_t { no_tangent, defined, undefined };

  /// What this pass makes depends on no tangent, or its like does.
  State state(const Value& value) const { return value.id < states_.size() ? states_[value.id] : State::defined; }

  void visit(Node& node) {
    bool any_defined = false, any_undefined = false;
    for (Value*& operand : node.operands) {
      operand = Graph::resolve(operand);
      any_defined |= state(*operand) == State::defined;
      any_undefined |= state(*operand) == State::undefined;
    }
    const State all = any_defined ? State::defined : any_undefined ? State::undefined : State::no_tangent;
    for (const Value& result : node.results) states_[result.id] = all;
    if (!any_defined || !any_undefined) return;
    graph_.set_insertion_point(&node);
    if (leave_out_of_sum(node)) return;
    for (Value*& operand : node.operands)
      if (is_undefined(*operand)) operand = zeros(*operand->type);
  }

  bool leave_out_of_sum(Node& node) {
    if (node.op != Op::add && node.op != Op::sub) return false;
    const bool first_is_left = !is_undefined(*node.operands[0]);
    Value* left = node.operands[first_is_left ? 0 : 1];
    if (!same_elements(*left->type, *node.results[0].type)) return false;
    if (!first_is_left && node.op == Op::sub) left = graph_.create(Op::neg, {left}, {}, left->type);
    Value* rest = left;
    // Calls read what lies as the sum did.
    if (left->type != node.result()->type) {
      rest = graph_.create(Op::cast, {left}, {}, node.result()->type);
      rests_[rest] = as_it_lay(left);
    }
    graph_.replace(node.result(), rest);
    return true;
  }

  Value* zeros(const Type& type) {
    if (!is_kernel_dtype(type.dtype))
      throw UserError("a gradient that is not defined would be zeros of a type of ATen's");
    Value* one =
        graph_.scalar(type.dtype, is_floating(type.dtype) ? Number::of(0) : Number::of_int(0), type.device);
    const std::vector<Size> no_strides(type.sizes.size(), Size(0));
    const Type* spread = graph_.symbolic_type(type.dtype, type.device, type.sizes.symbolic(), no_strides);
    return graph_.create(Op::cast, {graph_.create(Op::expand, {one}, {}, spread)}, {}, &type);
  }

  Graph& graph_;
  std::vector<State> states_;       ///< By Value::id, of what was there before.
  std::map<Value*, Value*> rests_;  ///< Of sums, laid out as these were, and before. Read by address alone.
};

/// By Value::id: what the outputs, of those that are asked for, are made of.
std::vector<bool> live_values(const Graph& graph) {
  std::vector<bool> live(graph.value_limit());
  for (const Value* output : graph.outputs()) live[output->id] = true;
  for (const Node* node = graph.last(); node; node = node->previous) {
    if (std::ranges::none_of(node->results, [&](const Value& result) { return live[result.id]; })) continue;
    for (const Value* operand : node->operands) live[operand->id] = true;
  }
  return live;
}

}  // namespace

Parted part_at(const Backward& whole, std::span<const Inner> inner) {
  const ShapeEnv* env = whole.graph->find_shape_env();
  std::shared_ptr<Graph> graph = clone(*whole.graph, env ? env->examples() : std::span<const int64_t>());
  std::map<const Value*, Value*> given;  // In place of what was there. Read by address alone.
  const auto never = [&](const Type* type) {
    return graph->add_input(concat("never", graph->inputs().size()), type, InputKind::argument);
  };
  for (const Inner& one : inner) {
    if (!one.tangent) continue;
    Value* const tangent = graph->inputs()[whole.first_tangent + *one.tangent].value;
    given[tangent] = never(tangent->type);
  }
  const auto exchange = [&](Value*& value) {
    value = Graph::resolve(value);
    if (const auto known = given.find(value); known != given.end()) value = known->second;
  };
  for (Node* node = graph->first(); node; node = node->next) std::ranges::for_each(node->operands, exchange);
  given.clear();
  Node* const first = graph->first();
  graph->set_insertion_point(first);
  std::vector<bool> is_sum(graph->outputs().size());
  for (const Inner& one : inner) {
    Value* const sum = Graph::resolve(graph->outputs()[one.output]);
    is_sum[one.output] = true;
    if (!one.tangent) {
      given[sum] = never(sum->type);
      continue;
    }
    Value* tangent = graph->inputs()[whole.first_tangent + *one.tangent].value;
    if (tangent->type != sum->type) tangent = graph->create(Op::cast, {tangent}, {}, sum->type);
    given[sum] = tangent;
  }
  graph->set_insertion_point(nullptr);
  for (Node* node = first; node; node = node->next) std::ranges::for_each(node->operands, exchange);
  for (size_t k = 0; k < is_sum.size(); ++k)
    if (!is_sum[k]) exchange(graph->outputs()[k]);
  return {graph, {graph.get(), whole.first_tangent, whole.tangents, inner.size()}};
}

PartialBackward partial_backward(const Backward& whole, const Bits& defined, const Bits& wanted) {
  const ShapeEnv* env = whole.graph->find_shape_env();
  const std::unique_ptr<Graph> graph = clone(*whole.graph, env ? env->examples() : std::span<const int64_t>());
  Undefined undefined(*graph, whole, defined);
  undefined.run();

  PartialBackward result;
  std::vector<Value*> outputs;
  for (size_t k = 0; k < graph->outputs().size(); ++k) {
    using Kind = PartialBackward::Gradient::Kind;
    PartialBackward::Gradient& gradient = result.gradients.emplace_back();
    Value* const was = graph->outputs()[k];
    Value* value = undefined.as_it_lay(Graph::resolve(was));
    if (!wanted[k] || undefined.is_undefined(*value)) continue;
    const auto tangents = std::span(graph->inputs()).subspan(whole.first_tangent, whole.tangents);
    if (const auto at = std::ranges::find(tangents, value, &Input::value); at != tangents.end()) {
      gradient = {Kind::tangent, static_cast<uint32_t>(at - tangents.begin())};
      continue;
    }
    // It had memory of its own, laid out so.
    if (value->type != was->type) value = graph->create(Op::cast, {value}, {}, was->type);
    const auto known = std::ranges::find(outputs, value);
    gradient = {Kind::output, static_cast<uint32_t>(known - outputs.begin())};
    if (known == outputs.end()) outputs.push_back(value);
  }
  graph->outputs() = outputs;
  graph->apply_replacements();

  const std::vector<bool> live = live_values(*graph);
  result.graph = std::make_shared<Graph>(graph->name());
  SymbolicCopy copier(*graph, *result.graph);
  for (uint32_t k = 0; k < graph->inputs().size(); ++k) {
    const Input& input = graph->inputs()[k];
    if (input.kind == InputKind::argument && !live[input.value->id]) continue;
    copier.copy_input(input);
    result.inputs.push_back(k);
  }
  for (const Node* node = graph->first(); node; node = node->next)
    if (std::ranges::any_of(node->results, [&](const Value& value) { return live[value.id]; })) copier.copy(*node);
  for (const Value* output : graph->outputs()) result.graph->outputs().push_back(copier[output]);
  return result;
}

std::vector<BackwardReaders> backward_readers(const Backward& whole) {
  const Graph& graph = *whole.graph;
  const size_t gradients = graph.outputs().size();
  const auto of = [](auto& sets, const Value* value) -> Bits& {
    return sets[Graph::resolve(const_cast<Value*>(value))->id];
  };
  std::vector<Bits> tangents(graph.value_limit(), Bits(whole.tangents));
  std::vector<Bits> saved(graph.value_limit(), Bits(whole.first_tangent));
  std::vector<Bits> leads_to(graph.value_limit(), Bits(gradients));
  for (size_t k = 0; k < whole.first_tangent; ++k) of(saved, graph.inputs()[k].value).set(k);
  for (size_t t = 0; t < whole.tangents; ++t) of(tangents, graph.inputs()[whole.first_tangent + t].value).set(t);
  for (size_t k = 0; k < gradients; ++k) of(leads_to, graph.outputs()[k]).set(k);
  for (const Node* node = graph.last(); node; node = node->previous)
    for (const Value& result : node->results)
      for (const Value* operand : node->operands) of(leads_to, operand) |= of(leads_to, &result);

  std::map<std::pair<Bits, Bits>, Bits> readers;
  for (const Node* node = graph.first(); node; node = node->next) {
    Bits met(whole.tangents), read(whole.first_tangent), to(gradients);
    for (const Value* operand : node->operands) {
      met |= of(tangents, operand);
      if (!of(tangents, operand).any()) read |= of(saved, operand);
    }
    for (const Value& result : node->results) {
      to |= of(leads_to, &result);
      of(tangents, &result) = met;
      if (!met.any()) of(saved, &result) = read;
    }
    if (met.any() && read.any() && to.any())
      readers.try_emplace({met, to}, Bits(whole.first_tangent)).first->second |= read;
  }
  std::vector<BackwardReaders> result;
  for (const auto& [reach, read] : readers) result.push_back({reach.first, reach.second, read});
  return result;
}

}  // namespace braze::passes
