#include "passes/backward_stages.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/clone.h"
#include "passes/joint_values.h"
#include "support/error.h"

namespace braze::passes {

using namespace ir;

namespace {

class Stager {
 public:
  Stager(const Graph& graph, const std::vector<std::vector<uint32_t>>& before, const StageSizes& sizes)
      : graph_(graph),
        before_(before),
        sizes_(sizes),
        made_at_(graph.value_limit()),
        read_last_(graph.value_limit()),
        stage_of_(graph.value_limit()) {}

  std::vector<BackwardStage> run() {
    number();
    find_ready();
    find_ends();
    if (ends_.size() < 2) return {};
    place();
    std::vector<BackwardStage> stages(ends_.size());
    for (size_t s = 0; s < stages.size(); ++s) make(s, stages[s]);
    return stages;
  }

 private:
  /// Made again in every stage that reads it.
  static bool is_free(const Value& value) { return is_view(value) || info(value.def->op).kind == OpKind::Source; }
  /// The value and what it is a view of.
  template <typename Visit>
  static void along_views(const Value* value, Visit visit) {
    for (visit(*(value = resolved(value))); is_view(*value); visit(*value))
      value = resolved(value->def->operands[0]);
  }
  int64_t bytes_of(const Type& type) const { return example_bytes(graph_, type); }

  /// Nodes but for views, in their order; what nothing but an output reads comes as early as it can.
  std::vector<const Node*> in_order() const {
    std::vector<bool> is_read(graph_.value_limit());
    std::vector<const Node*> nodes;
    for (const Node* node = graph_.first(); node; node = node->next) {
      if (info(node->op).kind == OpKind::View) continue;
      nodes.push_back(node);
      for (const Value* operand : node->operands)
        along_views(operand, [&](const Value& value) { is_read[value.id] = true; });
    }
    std::vector<size_t> made_by(graph_.value_limit());  // By Value::id; inputs are there before all.
    std::vector<std::vector<const Node*>> behind(nodes.size() + 1);
    for (size_t n = 0; n < nodes.size(); ++n) {
      size_t place = n + 1;
      if (std::ranges::none_of(nodes[n]->results, [&](const Value& result) { return is_read[result.id]; })) {
        place = 0;
        for (const Value* operand : nodes[n]->operands)
          along_views(operand, [&](const Value& value) { place = std::max(place, made_by[value.id]); });
      }
      behind[place].push_back(nodes[n]);
      for (const Value& result : nodes[n]->results) made_by[result.id] = place;
    }
    std::vector<const Node*> ordered;
    for (const std::vector<const Node*>& those : behind) ordered.insert(ordered.end(), those.begin(), those.end());
    return ordered;
  }

  /// From 1 on; inputs have 0.
  void number() {
    nodes_.push_back(nullptr);
    for (const Node* node : in_order()) {
      const size_t at = nodes_.size();
      nodes_.push_back(node);
      for (const Value& result : node->results) made_at_[result.id] = at;
      for (const Value* operand : node->operands)
        along_views(operand, [&](const Value& read) { read_last_[read.id] = at; });
    }
  }

  /// A gradient is given when nothing that follows reads it: its memory is somebody else's then.
  void find_ready() {
    ready_bytes_.resize(nodes_.size());
    for (size_t k = 0; k < graph_.outputs().size(); ++k) {
      size_t ready = 0;
      along_views(graph_.outputs()[k],
                  [&](const Value& value) { ready = std::max({ready, made_at_[value.id], read_last_[value.id]}); });
      for (const uint32_t input : before_[k]) ready = std::max(ready, read_last_[graph_.inputs()[input].value->id]);
      ready_.push_back(ready);
      ready_bytes_[ready] += bytes_of(*graph_.outputs()[k]->type);
      total_ += bytes_of(*graph_.outputs()[k]->type);
    }
  }

  /// By place: what lies between what is before it, and itself, and what follows.
  std::vector<int64_t> crossing_bytes() const {
    std::vector<int64_t> change(nodes_.size() + 1);
    for (size_t at = 1; at < nodes_.size(); ++at)
      for (const Value& result : nodes_[at]->results) {
        if (!result.type || is_free(result) || read_last_[result.id] <= at) continue;
        change[at] += bytes_of(*result.type);
        change[read_last_[result.id]] -= bytes_of(*result.type);
      }
    for (size_t at = 1; at < change.size(); ++at) change[at] += change[at - 1];
    return change;
  }

  void find_ends() {
    const int64_t wanted = std::max(sizes_.least, total_ / static_cast<int64_t>(sizes_.most));
    const std::vector<int64_t> crossing = crossing_bytes();
    int64_t given = 0, pending = ready_bytes_[0];
    for (size_t at = 1; at < nodes_.size(); ++at) {
      pending += ready_bytes_[at];
      if (pending < (ends_.empty() ? sizes_.least : wanted)) continue;
      if (total_ - given - pending < sizes_.least / 4) break;
      // As long as no other gradient is waited for.
      size_t best = at;
      while (at + 1 < nodes_.size() && ready_bytes_[at + 1] == 0)
        if (crossing[++at] < crossing[best]) best = at;
      ends_.push_back(best);
      given += pending;
      pending = 0;
    }
    ends_.push_back(nodes_.size());
  }

  size_t stage_at(size_t place) const { return std::ranges::lower_bound(ends_, place) - ends_.begin(); }

  void place() {
    for (size_t at = 1; at < nodes_.size(); ++at)
      for (const Value& result : nodes_[at]->results) stage_of_[result.id] = stage_at(at);
  }

  /// What the stage reads that it does not make, through values that are made again.
  void find_reads(size_t stage, std::unordered_set<const Value*>& reads) const {
    std::vector<const Value*> stack;
    for (size_t at = 1; at < nodes_.size(); ++at)
      if (stage_at(at) == stage)
        for (const Value* operand : nodes_[at]->operands) stack.push_back(resolved(operand));
    for (size_t k = 0; k < ready_.size(); ++k)
      if (stage_at(ready_[k]) == stage) stack.push_back(resolved(graph_.outputs()[k]));
    while (!stack.empty()) {
      const Value* one = stack.back();
      stack.pop_back();
      if (is_input(*one)) {
        reads.insert(one);
      } else if (is_free(*one)) {
        for (const Value* operand : one->def->operands) stack.push_back(resolved(operand));
      } else if (stage_of_[one->id] != stage) {
        reads.insert(one);
      }
    }
  }

  void make(size_t stage, BackwardStage& made) {
    made.graph = std::make_unique<Graph>(concat(graph_.name(), "_", stage));
    SymbolicCopy copier(graph_, *made.graph);
    std::unordered_set<const Value*> reads;
    find_reads(stage, reads);
    for (uint32_t k = 0; k < graph_.inputs().size(); ++k) {
      if (!reads.contains(graph_.inputs()[k].value)) continue;
      copier.copy_input(graph_.inputs()[k]);
      made.inputs.push_back(k);
    }
    for (size_t number = 0; number < handed_on_.size(); ++number) {
      const Value& value = *handed_on_[number];
      if (!reads.contains(&value)) continue;
      made.inputs.push_back(static_cast<uint32_t>(graph_.inputs().size() + number));
      copier.add_input(value, concat("before", number), *value.type);
    }
    for (size_t at = 1; at < nodes_.size(); ++at)
      if (stage_at(at) == stage) {
        for (const Value* operand : nodes_[at]->operands) make_again(*resolved(operand), copier);
        if (!copier.has(nodes_[at]->results[0])) copier.copy(*nodes_[at]);
      }
    for (size_t k = 0; k < ready_.size(); ++k) {
      if (stage_at(ready_[k]) != stage) continue;
      make_again(*resolved(graph_.outputs()[k]), copier);
      Value* value = copier[graph_.outputs()[k]];
      if (is_input(*value))
        value = made.graph->create(Op::cast, {value}, {}, value->type);  // An earlier stage made it.
      made.graph->outputs().push_back(value);
      made.gradients.push_back(static_cast<uint32_t>(k));
    }
    hand_on(stage, copier, made);
  }

  void make_again(const Value& value, SymbolicCopy& copier) const {
    if (copier.has(value)) return;
    for (const Value* operand : value.def->operands) make_again(*resolved(operand), copier);
    copier.copy(*value.def);
  }

  void hand_on(size_t stage, const SymbolicCopy& copier, BackwardStage& made) {
    std::unordered_set<const Value*> wanted;
    for (size_t later = stage + 1; later < ends_.size(); ++later) find_reads(later, wanted);
    for (size_t at = 1; at < nodes_.size(); ++at)
      for (const Value& result : nodes_[at]->results) {
        if (stage_at(at) != stage || !wanted.contains(&result)) continue;
        if (!is_kernel_dtype(result.type->dtype))
          throw UserError("a value between stages of the backward is of a type that no kernel reads");
        made.handed_on.push_back(static_cast<uint32_t>(graph_.inputs().size() + handed_on_.size()));
        handed_on_.push_back(&result);
        made.graph->outputs().push_back(copier[&result]);
      }
  }

  const Graph& graph_;
  const std::vector<std::vector<uint32_t>>& before_;
  const StageSizes sizes_;
  std::vector<const Node*> nodes_;
  std::vector<size_t> made_at_, read_last_, stage_of_;  ///< By Value::id.
  std::vector<size_t> ready_;                           ///< By output: the node behind which it is given.
  std::vector<int64_t> ready_bytes_;                    ///< By node.
  int64_t total_ = 0;
  std::vector<size_t> ends_;  ///< The last node of each stage.
  std::vector<const Value*> handed_on_;
};

}  // namespace

std::vector<BackwardStage> backward_stages(const Graph& backward, const std::vector<std::vector<uint32_t>>& before,
                                           const StageSizes& sizes) {
  return Stager(backward, before, sizes).run();
}

}  // namespace braze::passes
