// passes/rewrite.h: the one walk that applies every node-local rule.
//
// A rule looks at one node and the nodes above it and either leaves it alone or gives a value that takes the place
// of the node's result. What a rule must obey:
//   - Keep the type: the new value has the very type of the old one, strides included. So results of the graph and
//     operands of library calls keep their layout, whoever uses the value.
//   - Keep the bits: the new value equals the old one for every input, -0.0, inf and denormals included (any NaN
//     stands for any NaN), or is as close to eager PyTorch as the old one; the rule's `why` says which and why.
//   - Come to an end: fewer nodes, or operands nearer to the inputs, or a cheaper op, never back again.
//   - Create nothing when it does not apply.
//   - Say whether it drops an operand: one that could raise is computed, though nobody needs its value.
// What a rule makes is walked again, so rules need not look for what another rule will find.
//
// Groups of rules are passes of their own in braze-opt; in the pipeline all of them run in one walk.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ir/graph.h"

namespace braze::passes {

/// What rules are given.
class Rewriter {
 public:
  explicit Rewriter(ir::Graph& graph) : graph_(graph) {}
  ir::Graph& graph() { return graph_; }

  /// The number that every element of the value is, if that is known: a scalar, or a view of one.
  static std::optional<ir::Number> constant(const ir::Value* value);
  /// constant() as a double, if it equals `wanted` with the sign of zero.
  static bool is_constant(const ir::Value* value, double wanted);

  /// A value of that type, all of one number: a scalar, expanded where the type is not 0-dim.
  ir::Value* filled(const ir::Type* type, ir::Number number);
  /// A node with the result type of `node`. Null where sizes are expressions and it is not proved that it can be:
  /// that two slices are within bounds does not always prove it of the one that they are together.
  ir::Value* like(const ir::Node& node, ir::Op op, std::initializer_list<ir::Value*> operands,
                  std::initializer_list<ir::Attr> attrs = {});
  /// `value` if it has the type of `node`'s result, otherwise null: for rules that drop a node.
  static ir::Value* drop_to(const ir::Node& node, ir::Value* value) {
    return value->type == node.results[0].type ? value : nullptr;
  }

 private:
  ir::Graph& graph_;
};

struct Rule {
  bool (*applies)(ir::Op op);
  ir::Value* (*apply)(Rewriter& rewriter, ir::Node& node);  ///< Null: the rule does not apply.
  std::string_view name;
  std::string_view why;  ///< Why it is exact.
  /// An operand may go without trace, and what it is made of. Not applied where that would have raised.
  bool drops = false;
};

/// For Rule::applies.
template <ir::Op... ops>
bool one_of(ir::Op op) {
  return ((op == ops) || ...);
}
template <ir::OpKind... kinds>
bool of_kind(ir::Op op) {
  return ((ir::info(op).kind == kinds) || ...);
}

/// A pass made of rules.
struct RuleGroup {
  std::string_view name;
  std::span<const Rule> rules;
  std::string_view why;
};
std::span<const RuleGroup> rule_groups();

/// All groups in one walk, but for those that BRAZE_PASSES_OFF names.
void rewrite(ir::Graph& graph);
/// One group.
void rewrite(ir::Graph& graph, const RuleGroup& group);

// ---- the groups, in the order in which their rules are tried
std::span<const Rule> cast_chain_rules();
std::span<const Rule> view_rules();
std::span<const Rule> constant_folding_rules();
std::span<const Rule> simplify_rules();

}  // namespace braze::passes
