#include "loops/recompute.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "loops/extension.h"

namespace braze::loops {

namespace {

using ir::Node;
using ir::OpKind;
using ir::Value;

/// Instructions a vector that are hidden behind the loads that they save.
constexpr int64_t most_instructions = 16;

/// What one kernel reads of a split reduction's work.
class Shared {
 public:
  Shared(const Group& from, const Group& into, const Facts& facts) : from_(from), into_(into), facts_(facts) {}

  /// Values that it can compute itself; false: that would not pay.
  bool find() {
    std::unordered_set<const Value*> read, wanted, refused;
    for (const Node* node : into_.nodes) {
      const uint32_t anywhere = random_access_operands(node);
      for (size_t k = 0; k < node->operands.size(); ++k) {
        const Value* base = facts_.windows.base(node->operands[k]);
        if (facts_.is_free(base) || into_.contains(base->def)) continue;
        if (!from_.contains(base->def) || from_.does_again(base->def))
          read.insert(base);
        else
          (anywhere >> k & 1 ? refused : wanted).insert(base);
      }
    }
    int64_t saved = 0;
    for (const Value* value : wanted) {
      if (refused.contains(value) || !add(value)) {
        read.insert(value);
        continue;
      }
      saved += bytes(value);
    }
    int64_t more = 0;
    for (const Value* leaf : leaves_)
      if (!read.contains(leaf)) more += bytes(leaf);
    return !nodes_.empty() && more < 2 * saved;  // which would be written and read
  }
  const std::unordered_set<const Node*>& nodes() const { return nodes_; }

 private:
  int64_t bytes(const Value* value) const { return facts_.elements(value) * ir::byte_size(value->type->dtype); }

  /// `value` and what it is computed from in this kernel.
  bool add(const Value* value) {
    std::unordered_set<const Node*> nodes;
    std::vector<const Value*> leaves, open{value};
    int64_t instructions = 0;
    while (!open.empty()) {
      const Value* next = open.back();
      open.pop_back();
      if (facts_.is_free(next)) continue;
      if (!from_.contains(next->def)) {
        leaves.push_back(next);
        continue;
      }
      if (!nodes.insert(next->def).second) continue;
      const ir::OpInfo& row = ir::info(next->def->op);
      if (!ir::is_elementwise(next->def->op) && row.kind != OpKind::Cast) return false;
      if (ir::has(next->def->op, ir::traits::raises)) return false;
      instructions += row.vector_instructions;
      if (instructions > most_instructions) return false;
      for (const Value* operand : next->def->operands) open.push_back(facts_.windows.base(operand));
    }
    nodes_.insert(nodes.begin(), nodes.end());
    leaves_.insert(leaves.begin(), leaves.end());
    return true;
  }

  const Group &from_, &into_;
  const Facts& facts_;
  std::unordered_set<const Node*> nodes_;
  std::unordered_set<const Value*> leaves_;
};

bool is_one_nest(const Group& group, const Facts& facts) {
  if (facts.stands_alone(&group.nodes[0]->results[0])) return false;
  const OpKind kind = ir::info(group.nodes[0]->op).kind;
  return kind != OpKind::Concat && kind != OpKind::Scan && kind != OpKind::Update;
}

}  // namespace

void recompute_shared(const ir::Graph& graph, std::vector<Unit>& units, Facts& facts) {
  if (std::ranges::none_of(units, [](const Unit& unit) { return unit.group && unit.group->wide; })) return;
  std::unordered_map<const Node*, uint32_t> position;
  ir::for_each_node(graph, [&](const Node* node) { position.emplace(node, position.size()); });
  std::unordered_map<const Node*, size_t> unit_of;
  for (size_t u = 0; u < units.size(); ++u)
    if (units[u].group)
      for (const Node* node : units[u].group->nodes) unit_of[node] = u;

  const auto reform = [&](Group& group, const std::unordered_set<const Node*>& again) {
    std::vector<const Node*> nodes(group.nodes);
    nodes.insert(nodes.end(), again.begin(), again.end());
    std::ranges::sort(nodes, {}, [&](const Node* node) { return position.at(node); });
    for (const bool propose : {true, false}) {
      Group larger(facts.rules());
      Extension extension(larger, facts, propose);
      if (!std::ranges::all_of(nodes, [&](const Node* node) { return extension.add(node); })) continue;
      if (!extension.legal() || larger.wide != group.wide) continue;
      larger.again = group.again;
      larger.again.insert(larger.again.end(), again.begin(), again.end());
      for (const Node* reader : group.nodes)
        for (const Node* node : again) facts.forget_reader(&node->results[0], reader);
      group = std::move(larger);
      return;
    }
  };

  for (size_t u = 0; u < units.size(); ++u) {
    if (!units[u].group || !units[u].group->wide) continue;
    std::vector<size_t> readers;
    for (const Node* node : units[u].group->nodes)
      for (const Node* reader : facts.consumers(&node->results[0]))
        if (const auto at = unit_of.find(reader); at != unit_of.end() && at->second > u)
          readers.push_back(at->second);
    std::ranges::sort(readers);
    readers.erase(std::ranges::unique(readers).begin(), readers.end());
    for (const size_t reader : readers) {
      Group& group = *units[reader].group;
      if (!is_one_nest(group, facts)) continue;
      Shared shared(*units[u].group, group, facts);
      if (shared.find()) reform(group, shared.nodes());
    }
  }
}

}  // namespace braze::loops
