#include "loops/fusion.h"

#include <algorithm>

#include "loops/extension.h"
#include "loops/unit_order.h"
#include "support/error.h"

namespace braze::loops {

namespace {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

bool is_compute(const Node* node, const Windows& windows) {
  const OpKind kind = ir::info(node->op).kind;
  if (kind == OpKind::Source || kind == OpKind::Library) return false;
  return kind != OpKind::View || windows.is_base(&node->results[0]);
}

/// Never shares a kernel.
bool stands_alone(const Node* node, const Facts& facts) {
  if (facts.stands_alone(&node->results[0])) return true;
  if (node->op == Op::cat || ir::info(node->op).kind == OpKind::Scan) return true;
  for (const Value* operand : node->operands)
    if (is_empty(operand->type->sizes.symbolic())) return true;
  return ir::info(node->op).kind == OpKind::Update || is_empty(node->results[0].type->sizes.symbolic());
}

/// Units under construction.
class Former {
 public:
  Former(const ir::Graph& graph, const Facts& facts, bool fuse) : graph_(graph), facts_(facts), fuse_(fuse) {
    uint32_t highest = 0;
    ir::for_each_node(graph, [&](const Node* node) { highest = std::max(highest, node->id); });
    owner_.assign(highest + 1, none_unit);
    position_.assign(highest + 1, 0);
    uint32_t position = 0;
    ir::for_each_node(graph, [&](const Node* node) { position_[node->id] = position++; });
  }

  std::vector<Unit> run() {
    uint32_t position = 0, last_effect = none_unit;
    ir::for_each_node(graph_, [&](const Node* node) {
      ++position;
      if (ir::info(node->op).kind == OpKind::Library) {
        const uint32_t unit = start(node, position);
        units_[unit].call = node;
        if (node->has_effect()) {
          if (last_effect != none_unit) order_.need(unit, last_effect);
          last_effect = unit;
        }
        return;
      }
      if (!is_compute(node, facts_.windows)) return;
      if (facts_.is_free(&node->results[0]) && !must_be_stored(&node->results[0])) return;
      place(node, position);
    });
    if (fuse_) join_siblings();
    put_behind_readers();
    return ordered();
  }

 private:
  static constexpr uint32_t none_unit = ~0u;
  struct Building {
    std::unique_ptr<Group> group;
    const Node* call = nullptr;
    uint32_t position = 0;  ///< Of the last node.
  };

  /// A free value is stored only for those that cannot recompute it.
  bool must_be_stored(const Value* value) const {
    if (facts_.escapes(value)) return true;
    for (const Node* consumer : facts_.consumers(value)) {
      const OpKind kind = ir::info(consumer->op).kind;
      if (kind == OpKind::Library || kind == OpKind::Concat || kind == OpKind::Scan || kind == OpKind::Update ||
          facts_.stands_alone(&consumer->results[0]))
        return true;
      const uint32_t random = random_access_operands(consumer);
      for (size_t k = 0; k < consumer->operands.size(); ++k)
        if ((random >> k & 1) && facts_.windows.base(consumer->operands[k]) == value) return true;
    }
    return false;
  }

  uint32_t start(const Node* node, uint32_t position) {
    const uint32_t unit = order_.add(read_by(node));
    units_.push_back({nullptr, nullptr, position});
    owner_[node->id] = unit;
    return unit;
  }

  uint32_t owner_of(const Value* operand) const {
    const Node* producer = facts_.windows.base(operand)->def;
    return producer->op == Op::input ? none_unit : owner_[producer->id];
  }

  /// Units that compute operands of `node`, each once.
  std::vector<uint32_t> read_by(const Node* node) const {
    std::vector<uint32_t> units;
    for (const Value* operand : node->operands)
      if (const uint32_t unit = owner_of(operand); unit != none_unit) units.push_back(unit);
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    return units;
  }

  void place(const Node* node, uint32_t position) {
    std::vector<uint32_t> producers = fusable_producers(node);
    if (producers.size() > 1 && try_join(producers, node, position)) return;
    for (uint32_t producer : producers)
      if (try_join({producer}, node, position)) return;
    const uint32_t unit = start(node, position);
    auto group = std::make_unique<Group>(facts_.rules());
    BRAZE_CHECK(Extension(*group, facts_).add(node), "a single node must be a kernel: ", ir::info(node->op).name);
    units_[unit].group = std::move(group);
  }

  /// Kernels that compute operands of `node`, largest operand first.
  std::vector<uint32_t> fusable_producers(const Node* node) const {
    std::vector<std::pair<int64_t, uint32_t>> found;
    if (!fuse_ || stands_alone(node, facts_)) return {};
    for (const Value* operand : node->operands) {
      const uint32_t unit = owner_of(operand);
      if (unit == none_unit || !units_[unit].group || stands_alone(units_[unit].group->nodes[0], facts_)) continue;
      const int64_t bytes = facts_.elements(operand) * ir::byte_size(operand->type->dtype);
      auto same = std::find_if(found.begin(), found.end(), [&](const auto& entry) { return entry.second == unit; });
      if (same == found.end())
        found.push_back({bytes, unit});
      else
        same->first = std::max(same->first, bytes);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<uint32_t> units;
    for (const auto& [bytes, unit] : found) units.push_back(unit);
    return units;
  }

  static std::unique_ptr<Group> combine(const Group& a, const Group& b) {
    auto group = std::make_unique<Group>(a);
    group->axes_known = false;
    const uint32_t offset = group->space.append(b.space);
    for (const auto& [value, label] : b.labels) group->labels.add(value, shifted(label, offset));
    for (const auto& [node, label] : b.reduced_inputs)
      group->reduced_inputs.push_back({node, shifted(label, offset)});
    for (const auto& [node, label] : b.reshaped_inputs)
      group->reshaped_inputs.push_back({node, shifted(label, offset)});
    group->nodes.insert(group->nodes.end(), b.nodes.begin(), b.nodes.end());
    group->wide = a.wide || b.wide;
    return group;
  }

  bool try_join(const std::vector<uint32_t>& producers, const Node* node, uint32_t position) {
    const std::vector<uint32_t> reads = read_by(node);
    if (!order_.can_merge(producers, reads)) return false;
    const uint32_t unit = producers[0];
    if (producers.size() == 1) {
      Group& group = *units_[unit].group;
      const Group::Mark before = group.mark();
      if (!extend(group, node)) return false;
      if (!order_.merge(producers, reads)) {
        group.roll_back(before);
        group.axes_known = false;
        return false;
      }
    } else {
      auto joined = std::make_unique<Group>(facts_.rules());
      if (!join(producers, *joined) || !extend(*joined, node) || !order_.merge(producers, reads)) return false;
      adopt(producers, std::move(joined));
    }
    owner_[node->id] = unit;
    units_[unit].position = position;
    return true;
  }

  /// Adds the node, the last one so far in program order; leaves the group as it was if it does not fit.
  bool extend(Group& group, const Node* node) const {
    const Group::Mark before = group.mark();
    for (const bool propose : {true, false}) {
      if (propose && group.reduced_inputs.empty()) continue;
      Extension extension(group, facts_, propose);
      if (extension.add(node) && extension.legal()) return true;
      group.roll_back(before);
    }
    return false;
  }

  /// One group of several. Where one of them reads what another computes, the labels of what is read must fit, so
  /// the nodes are added anew.
  bool join(const std::vector<uint32_t>& members, Group& joined) const {
    bool independent = true;
    for (uint32_t a : members)
      for (uint32_t b : members) independent &= a == b || !order_.needs_directly(a, b);
    joined = *units_[members[0]].group;
    if (independent) {
      for (size_t k = 1; k < members.size(); ++k) joined = std::move(*combine(joined, *units_[members[k]].group));
      return true;
    }
    std::vector<const Node*> nodes;
    for (uint32_t member : members) {
      const auto& more = units_[member].group->nodes;
      nodes.insert(nodes.end(), more.begin(), more.end());
    }
    sort_by_position(nodes);
    for (const bool propose : {true, false}) {
      joined = Group(facts_.rules());
      Extension extension(joined, facts_, propose);
      if (std::all_of(nodes.begin(), nodes.end(), [&](const Node* node) { return extension.add(node); }) &&
          extension.legal())
        return true;
    }
    return false;
  }

  void sort_by_position(std::vector<const Node*>& nodes) const {
    std::sort(nodes.begin(), nodes.end(),
              [&](const Node* a, const Node* b) { return position_[a->id] < position_[b->id]; });
  }

  /// The first of `members` becomes `group`, the others end.
  void adopt(const std::vector<uint32_t>& members, std::unique_ptr<Group> group) {
    Building& unit = units_[members[0]];
    for (size_t k = 1; k < members.size(); ++k) {
      Building& gone = units_[members[k]];
      unit.position = std::max(unit.position, gone.position);
      for (const Node* node : gone.group->nodes) owner_[node->id] = members[0];
      gone.group.reset();
    }
    sort_by_position(group->nodes);
    unit.group = std::move(group);
  }

  /// Joins kernels that read the same large value and could be one loop nest.
  void join_siblings() {
    constexpr size_t most_readers = 64;  // of one value that each reader is compared with
    std::vector<const Value*> shared;
    for (const ir::Input& input : graph_.inputs()) shared.push_back(input.value);
    ir::for_each_node(graph_, [&](const Node* node) {
      for (const Value& result : node->results)
        if (facts_.windows.is_base(&result)) shared.push_back(&result);
    });
    for (const Value* value : shared) {
      // Smaller values are in the nearest cache when they are read again.
      const int64_t worth = target_of(facts_.targets, *value->type).near_cache / 3;
      if (4 * facts_.elements(value) < worth || facts_.consumers(value).size() < 2) continue;
      std::vector<uint32_t> readers;
      for (const Node* consumer : facts_.consumers(value)) {
        const uint32_t unit = owner_[consumer->id];
        if (unit == none_unit || !units_[unit].group || stands_alone(consumer, facts_)) continue;
        if (std::find(readers.begin(), readers.end(), unit) == readers.end()) readers.push_back(unit);
      }
      for (size_t a = 0; a < readers.size(); ++a)
        for (size_t b = a + 1; b < std::min(readers.size(), a + most_readers); ++b) {
          if (!try_siblings(readers[a], readers[b], value)) continue;
          readers.erase(readers.begin() + static_cast<int64_t>(b));
          --b;
        }
    }
  }

  bool try_siblings(uint32_t a, uint32_t b, const Value* value) {
    if (!order_.alive(a) || !order_.alive(b)) return false;
    const Group &left = *units_[a].group, &right = *units_[b].group;
    if (left.nodes.size() + right.nodes.size() > facts_.target(left.nodes[0]).most_nodes ||
        stands_alone(left.nodes[0], facts_))
      return false;
    const uint32_t members[] = {a, b};
    if (order_.needs_directly(a, b) || order_.needs_directly(b, a) || !order_.can_merge(members, {})) return false;
    auto group = combine(left, right);
    const uint32_t offset = static_cast<uint32_t>(group->space.count() - right.space.count());
    const Label* x = reading_label(left, value);
    const Label* y = reading_label(right, value);
    if (!x || !y || x->size() != y->size()) return false;
    if (!group->space.unify_broadcast(*x, shifted(*y, offset))) return false;
    if (!Extension(*group, facts_).legal() || !order_.merge(members, {})) return false;
    adopt({a, b}, std::move(group));
    return true;
  }

  /// Under which label a group reads `value` directly and element by element.
  const Label* reading_label(const Group& group, const Value* value) const {
    for (const Node* node : group.nodes) {
      const OpKind kind = ir::info(node->op).kind;
      for (const Value* operand : node->operands) {
        if (operand != value) continue;
        if (kind == OpKind::Reduction) return group.find_reduced(node);
        if (ir::is_elementwise(node->op) &&
            value->type->symbolic_numel() == node->results[0].type->symbolic_numel() &&
            value->type->rank() == node->results[0].type->rank())
          return group.find(&node->results[0]);
      }
    }
    return nullptr;
  }

  void put_behind_readers() {
    for (const auto& [write, read] : facts_.follows_readers())
      for (const Node* reader : facts_.consumers(read)) {
        const uint32_t first = owner_[reader->id], second = owner_[write->id];
        if (first == none_unit || first == second || facts_.stands_alone(&reader->results[0])) continue;
        const uint32_t members[] = {first, second};
        if (!order_.needs_directly(first, second) && order_.can_merge(members, {})) order_.need(second, first);
      }
  }

  /// In program order of each unit's last node, as far as dependencies allow.
  std::vector<Unit> ordered() {
    std::vector<uint32_t> position;
    size_t alive = 0;
    for (uint32_t k = 0; k < units_.size(); ++k) {
      position.push_back(units_[k].position);
      alive += order_.alive(k);
    }
    std::vector<Unit> order;
    for (const uint32_t unit : order_.in_order(position))
      order.push_back({std::move(units_[unit].group), units_[unit].call});
    BRAZE_CHECK(order.size() == alive, "kernels depend on each other in a circle");
    return order;
  }

  const ir::Graph& graph_;
  const Facts& facts_;
  bool fuse_;
  std::vector<Building> units_;  ///< By their numbers in order_.
  UnitOrder order_;
  std::vector<uint32_t> owner_;     ///< Unit of each node, by id.
  std::vector<uint32_t> position_;  ///< Place of each node in the program, by id.
};

}  // namespace

std::vector<Unit> form_units(const ir::Graph& graph, const Facts& facts, bool fuse) {
  return Former(graph, facts, fuse).run();
}

}  // namespace braze::loops
