#include "passes/rewrite.h"

#include <array>
#include <cmath>
#include <vector>

#include "ir/verify_node.h"
#include "passes/switches.h"
#include "support/error.h"

namespace braze::passes {

using namespace ir;

std::span<const RuleGroup> rule_groups() {
  static const RuleGroup groups[] = {
      {"cast_chains", cast_chain_rules(), "conversions that another one undoes or repeats"},
      {"canonicalize_views", view_rules(), "one view where several in a row stood"},
      {"constant_folding", constant_folding_rules(), "arithmetic on numbers known now"},
      {"simplify", simplify_rules(), "algebra that is exact"},
  };
  return groups;
}

// ---- what rules are given

std::optional<Number> Rewriter::constant(const Value* value) {
  const Node* node = value->def;
  while (info(node->op).kind == OpKind::View) node = Graph::resolve(node->operands[0])->def;
  if (node->op != Op::scalar) return std::nullopt;
  return node->number_attr("value");
}

bool Rewriter::is_constant(const Value* value, double wanted) {
  const auto number = constant(value);
  return number && number->as_double() == wanted &&
         (wanted != 0 || !number->floating || std::signbit(number->f) == std::signbit(wanted));
}

Value* Rewriter::filled(const Type* type, Number number) {
  Value* scalar = graph_.scalar(type->dtype, number, type->device);
  return scalar->type == type ? scalar : graph_.create(Op::expand, {scalar}, {}, type);
}

Value* Rewriter::like(const Node& node, Op op, std::initializer_list<Value*> operands,
                      std::initializer_list<Attr> attrs) {
  Value* value = graph_.create(op, operands, attrs, node.results[0].type);
  if (!graph_.find_shape_env() || !complaint(*value->def, graph_.prove())) return value;
  graph_.erase(value->def);
  return nullptr;
}

// ---- the walk

namespace {

constexpr size_t op_count = static_cast<size_t>(Op::call) + 1;

/// The rules that may apply to each op, and the group of each.
struct Table {
  struct Entry {
    const Rule* rule;
    const RuleGroup* group;
  };
  std::array<std::vector<Entry>, op_count> by_op;

  Table() {
    for (const RuleGroup& group : rule_groups())
      for (const Rule& rule : group.rules)
        for (size_t op = 0; op < op_count; ++op)
          if (rule.applies(static_cast<Op>(op))) by_op[op].push_back({&rule, &group});
  }
};

/// Some elements are a runtime error: a bad index, a divisor of 0, whatever a library refuses.
bool may_raise(const Node& node) {
  const OpKind kind = info(node.op).kind;
  return kind == OpKind::Gather || kind == OpKind::Update || node.op == Op::call || has(node.op, traits::raises);
}

/// Whether all that may raise is still computed where `with` takes the place of the node's result.
bool keeps_checks(const Graph& graph, const Node& replaced, const Value* with) {
  struct Live {
    bool before = false, after = false;
  };
  std::vector<Live> live(graph.value_limit());
  const auto of = [&](const Value* value) -> Live& { return live[Graph::resolve(const_cast<Value*>(value))->id]; };
  for (const Value* output : graph.outputs()) of(output) = {true, true};
  for (const Mutation& mutation : graph.mutations()) of(mutation.value) = {true, true};
  for (const Node* node = graph.last(); node; node = node->previous) {
    Live needed{node->has_effect(), node->has_effect()};
    for (const Value& result : node->results) {
      needed.before |= live[result.id].before;
      needed.after |= live[result.id].after;
    }
    if (needed.before && !needed.after && may_raise(*node)) return false;
    const bool goes = node == &replaced;
    if (goes) of(with).after |= needed.after;
    for (const Value* operand : node->operands) {
      of(operand).before |= needed.before;
      of(operand).after |= needed.after && !goes;
    }
  }
  return true;
}

template <typename Wanted>
void walk(Graph& graph, int64_t limit, Wanted&& wanted) {
  static const Table table;
  Rewriter rewriter(graph);
  Node* const insertion_point = graph.insertion_point();
  const std::string_view source = graph.source();
  // Every rule comes to an end; one that does not must not hang the user's program.
  int64_t left = 1000 + 50 * static_cast<int64_t>(graph.node_count());

  const auto replacement = [&](Node& node) -> Value* {
    for (const auto& [rule, group] : table.by_op[static_cast<size_t>(node.op)]) {
      if (!wanted(*group)) continue;
      Value* with = rule->apply(rewriter, node);
      if (!with || (rule->drops && !keeps_checks(graph, node, with))) continue;
      BRAZE_CHECK(with->type == node.results[0].type, "rule ", rule->name, " changed a type");
      BRAZE_CHECK(--left > 0, "rule ", rule->name, " does not come to an end");
      return with;
    }
    return nullptr;
  };

  for (Node* node = graph.first(); node && limit > 0;) {
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    Node* const before = node->previous;
    graph.set_insertion_point(node);
    graph.set_source(node->source);
    Value* with = replacement(*node);
    if (!with) {
      node = node->next;
      continue;
    }
    --limit;
    graph.replace(node->result(), with);
    graph.erase(node);
    node = before ? before->next : graph.first();  // what the rule made comes first
  }
  graph.set_insertion_point(insertion_point);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace

void rewrite(Graph& graph) {
  const Switches switches = Switches::from_environment();
  walk(graph, switches.rewrites, [&](const RuleGroup& group) { return !switches.is_off(group.name); });
}

void rewrite(Graph& graph, const RuleGroup& group) {
  walk(graph, Switches::from_environment().rewrites,
       [&](const RuleGroup& other) { return other.name == group.name; });
}

}  // namespace braze::passes
