// loops/fusion.h: which nodes of a graph become one kernel.
//
// Fusion is greedy in program order: a node joins the kernels of its producers where one loop nest can compute
// both, largest operand first, because that saves the most memory traffic. Afterwards kernels that read the same
// large values are joined side by side. A kernel is legal when
//   - no path leaves it and comes back (through a library call, say),
//   - its values share one iteration space (loops/axes.h) with at most one set of reduced axes R: every stored
//   value
//     runs over all axes, or over all but R,
//   - a value read through slice, flip, gather or pad is not computed in it,
//   - all is on one device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "loops/axes.h"
#include "loops/window.h"
#include "target/target.h"

namespace braze::loops {

/// A kernel to be: its nodes in program order and the labels of what they compute.
/// Labels of values in the order in which they were found, the last of which are taken back as a group is tried.
class LabelTable {
 public:
  using Row = std::pair<const ir::Value*, Label>;
  void add(const ir::Value* value, Label label);
  void resize(size_t count);  ///< To no more than there are.
  size_t size() const { return rows_.size(); }
  const Row& operator[](size_t k) const { return rows_[k]; }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  const Label* find(const ir::Value* value) const;  ///< The last of that value's.

 private:
  static constexpr size_t few = 16;  ///< So many are looked through.
  std::vector<Row> rows_;
  /// The rows of each value, where there are more than a few.
  std::unordered_map<const ir::Value*, std::vector<uint32_t>> index_;
};

struct Group {
  explicit Group(const SizeRules& rules = {}) : space(rules) {}
  std::vector<const ir::Node*> nodes;
  AxisSpace space;
  LabelTable labels;                                              ///< Members' results and views of them.
  std::vector<std::pair<const ir::Node*, Label>> reduced_inputs;  ///< Label of each reduction's operand.
  /// Label of the operand of each computed reshape; absent where the shapes do not factor.
  std::vector<std::pair<const ir::Node*, Label>> reshaped_inputs;
  /// A reduction over much with few results: split over threads. Nothing may follow it, but for what a GPU's
  /// joining phase computes of the results alone.
  bool wide = false;
  std::vector<const ir::Node*> again;  ///< Of the nodes: what another kernel computes, too. Not stored here.

  /// The axes of the whole kernel and those of a stored row, sorted; empty until the group was found legal. They
  /// hold as long as `space` stands.
  AxisList all_axes, row_axes;
  bool axes_known = false;

  /// A state to come back to: fusion tries on the group itself.
  struct Mark {
    size_t nodes, labels, reduced, reshaped;
    AxisSpace::Mark space;
    bool wide;
  };
  Mark mark() const {
    return {nodes.size(), labels.size(), reduced_inputs.size(), reshaped_inputs.size(), space.mark(), wide};
  }
  void roll_back(const Mark& mark);

  const Label* find(const ir::Value* value) const;
  const Label* find_reduced(const ir::Node* reduction) const;
  const Label* find_reshaped(const ir::Node* reshape) const;
  bool contains(const ir::Node* node) const;
  bool does_again(const ir::Node* node) const { return std::ranges::find(again, node) != again.end(); }
  AxisList reduced_axes() const;  ///< Leaves, sorted; empty without reductions.
};

/// What the planner runs in turn: a group, or one library call.
struct Unit {
  std::unique_ptr<Group> group;
  const ir::Node* call = nullptr;
};

/// A number of the graph: known when it is lowered, or a size.
inline bool is_number(ir::Op op) {
  return op == ir::Op::scalar || op == ir::Op::size;
}

/// What computes values of `type`.
inline const Target& target_of(const Targets& targets, const ir::Type& type) {
  return type.device.kind == ir::DeviceKind::cuda ? *targets.gpu : *targets.cpu;
}

/// Facts about values that fusion and emission share, and what they are computed on.
class Facts {
 public:
  Facts(const ir::Graph& graph, const Windows& windows, const Targets& targets);
  const Windows& windows;
  const Targets targets;
  /// What only allows a faster form and is not known of the sizes is decided for the examples here, with a guard.
  SizeRules decide;
  const SizeRules& rules() const { return windows.rules(); }
  /// Of the examples.
  int64_t elements(const ir::Value* value) const {
    if (value->type->sizes.is_constant()) return value->type->numel();
    const auto [known, is_new] = elements_.try_emplace(value->type);
    if (is_new) known->second = elements_of(*value->type, rules());
    return known->second;
  }
  /// Of the device that computes `node`.
  const Target& target(const ir::Node* node) const { return target_of(targets, *node->results[0].type); }
  /// The result lies in memory that a kernel of its own alone writes to (loops/partial_writes.h).
  bool stands_alone(const ir::Value* result) const { return alone_[result->id]; }
  void let_stand_alone(const ir::Value* result) { alone_[result->id] = true; }
  /// It writes over `read`: after whoever reads that, where it may.
  void let_follow_readers(const ir::Node* write, const ir::Value* read) {
    follows_readers_.emplace_back(write, read);
  }
  const auto& follows_readers() const { return follows_readers_; }
  /// Nodes that read `value`, itself or through views.
  const std::vector<const ir::Node*>& consumers(const ir::Value* value) const { return consumers_[value->id]; }
  /// `reader` computes `value` itself.
  void forget_reader(const ir::Value* value, const ir::Node* reader) { std::erase(consumers_[value->id], reader); }
  /// Read by the caller at the end: a graph output or a mutation.
  bool escapes(const ir::Value* value) const { return escapes_[value->id]; }
  /// Computed from scalars and iota alone by a few cheap ops: recomputed wherever it is read.
  bool is_free(const ir::Value* value) const { return free_[value->id] != 0; }

 private:
  std::vector<std::vector<const ir::Node*>> consumers_;
  std::vector<bool> escapes_, alone_;
  std::vector<std::pair<const ir::Node*, const ir::Value*>> follows_readers_;
  std::vector<uint8_t> free_;  ///< Number of ops that recompute it, 0: not free.
  mutable std::unordered_map<const ir::Type*, int64_t> elements_;  ///< Of types whose sizes are expressions.
};

/// Operands of `node` that are read at any place (tables of gathers, sources of pad), as a bit mask.
uint32_t random_access_operands(const ir::Node* node);

/// Units in an order that respects data and effects.
std::vector<Unit> form_units(const ir::Graph& graph, const Facts& facts, bool fuse);

}  // namespace braze::loops
