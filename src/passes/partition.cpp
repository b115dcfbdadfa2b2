#include "passes/partition.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/clone.h"
#include "passes/joint_values.h"
#include "passes/min_cut.h"
#include "support/error.h"

namespace braze::passes {

using namespace ir;

namespace {

/// Work of more instructions a vector is saved rather than done again: what is no polynomial, and libm's.
constexpr int most_instructions = 32;

/// Cheap, the same whenever it is done, and done by the kernel that reads it.
bool is_cheap(const Node& node) {
  const OpInfo& row = info(node.op);
  if (row.kind == OpKind::View) return true;
  if (row.kind == OpKind::Source) return node.op != Op::input;
  const bool elementwise = is_elementwise(node.op) || row.kind == OpKind::Cast || has(node.op, traits::per_element);
  return elementwise && !has(node.op, traits::raises) && row.vector_instructions <= most_instructions;
}

/// It takes its operands from memory.
bool reads_memory(const Node& node) {
  return info(node.op).kind == OpKind::Library;
}

class Partitioner {
 public:
  explicit Partitioner(const Joint& joint)
      : joint_(joint),
        graph_(*joint.graph),
        in_backward_(graph_.value_limit()),
        direct_(graph_.value_limit()),
        banned_(graph_.value_limit()),
        visible_(graph_.value_limit()),
        mutated_(graph_.value_limit()),
        saved_(graph_.value_limit()) {}

  Partition run() {
    find_backward();
    find_direct();
    find_visible();
    cut();
    if (ban_long_chains()) cut();
    find_reads();
    make_forward();
    make_backward();
    return std::move(result_);
  }

 private:
  /// A number is made where it is wanted: no work, and nothing to save.
  static bool is_number(const Value& value) {
    return value.def->op == Op::scalar || value.def->op == Op::iota || value.def->op == Op::size;
  }
  int64_t bytes_of(const Type& type) const { return std::max<int64_t>(1, example_bytes(graph_, type)); }

  /// The live nodes of the backward part, and what is defined there.
  void find_backward() {
    for (size_t k = joint_.first_tangent; k < graph_.inputs().size(); ++k)
      in_backward_[graph_.inputs()[k].value->id] = true;
    std::vector<bool> live(graph_.value_limit());
    for (size_t k = joint_.first_gradient; k < graph_.outputs().size(); ++k)
      live[resolved(graph_.outputs()[k])->id] = true;
    std::vector<const Node*> backward;
    for (const Node* node = joint_.first_backward; node; node = node->next) backward.push_back(node);
    for (const Node* node : backward)
      for (const Value& result : node->results) in_backward_[result.id] = true;
    for (auto node = backward.rbegin(); node != backward.rend(); ++node) {
      if ((*node)->has_effect())
        throw UserError("the backward of this function draws random numbers, or has another effect");
      if (!std::ranges::any_of((*node)->results, [&](const Value& result) { return live[result.id]; })) continue;
      for (const Value* operand : (*node)->operands) live[resolved(operand)->id] = true;
      backward_.push_back(*node);
    }
    std::ranges::reverse(backward_);
  }

  /// What the backward part reads of the forward's work: behind views, which cost nothing, the values themselves.
  void find_direct() {
    const auto read = [&](const Value* value, bool from_memory) {
      Value* root = resolved(value);
      if (in_backward_[root->id]) return;
      needed_.push_back(root);
      for (direct_[root->id] = true; is_view(*root); direct_[root->id] = true)
        root = resolved(root->def->operands[0]);
      if (from_memory) banned_[root->id] = true;
    };
    for (const Node* node : backward_)
      for (const Value* operand : node->operands) read(operand, reads_memory(*node));
    for (size_t k = joint_.first_gradient; k < graph_.outputs().size(); ++k) read(graph_.outputs()[k], true);
    for (const Value* value : needed_) mark_ancestors(*value);
  }

  void mark_ancestors(const Value& value) {
    std::vector<const Value*> queue{&value};
    while (!queue.empty()) {
      const Value* one = queue.back();
      queue.pop_back();
      if (place_.contains(one)) continue;
      place_.emplace(one, static_cast<uint32_t>(vertices_.size()));
      vertices_.push_back(one);
      if (is_input(*one) || !is_cheap(*one->def)) continue;
      for (const Value* operand : one->def->operands) queue.push_back(resolved(operand));
    }
  }

  /// Memory that the user has, and may write to.
  void find_visible() {
    for (const Input& input : graph_.inputs()) visible_[input.value->id] = true;
    for (size_t k = 0; k < joint_.first_gradient; ++k) visible_[resolved(graph_.outputs()[k])->id] = true;
    for (const Mutation& mutation : graph_.mutations()) {
      mutated_[graph_.inputs()[mutation.input].value->id] = true;
      const Value* value = resolved(mutation.value);
      visible_[value->id] = true;
      written_to_.try_emplace(value, mutation.input);
    }
  }

  /// The user has it, and eager saves it: it is there anyway, and may not be written to. A result may be a view
  /// here where it is none of the user's, as a sum is whose dimension is dropped.
  bool is_eagers(const Value& value) const {
    if (!visible_[value.id] || !direct_[value.id]) return false;
    return !visible_[behind_views(value).id] || (!is_input(value) && !is_view(value));
  }

  static const Value& behind_views(const Value& value) {
    const Value* root = resolved(&value);
    while (is_view(*root)) root = resolved(root->def->operands[0]);
    return *root;
  }

  /// What it reads may change in between, and nobody would know.
  bool reads_exposed(const Node& node) const {
    return std::ranges::any_of(node.operands, [&](const Value* operand) {
      for (const Value* value = resolved(operand);; value = resolved(value->def->operands[0]))
        if (is_eagers(*value) || !is_view(*value)) return is_input(*value) || is_eagers(*value);
    });
  }

  /// Its operands may be saved instead.
  bool may_be_repeated(const Value& value) const {
    if (is_input(value) || !is_cheap(*value.def) || is_eagers(value)) return false;
    return is_view(value) || (!banned_[value.id] && !reads_exposed(*value.def));
  }

  int64_t cost(const Value& value) const {
    if (is_eagers(value)) return 1;
    const bool computed_anyway = is_number(value) || is_view(value);
    if (computed_anyway || (visible_[value.id] && !direct_[value.id])) return unaffordable;
    // What an input held before it is written is copied.
    if ((is_input(value) && !mutated_[value.id]) || written_to_.contains(&value)) return 1;
    // Every other value costs some bytes more than an input, which is there anyway.
    return bytes_of(*value.type) + 1;
  }

  void cut() {
    std::vector<int64_t> costs;
    for (const Value* value : vertices_) costs.push_back(cost(*value));
    MinCut cut(costs);
    for (uint32_t v = 0; v < vertices_.size(); ++v) {
      const Value& value = *vertices_[v];
      if (is_number(value)) continue;
      if (!may_be_repeated(value)) {
        cut.connect_source(v);
      } else {
        for (const Value* operand : value.def->operands) cut.connect(place_.at(resolved(operand)), v);
      }
    }
    for (const Value* value : needed_) cut.connect_sink(place_.at(value));
    const std::vector<bool> chosen = cut.run();
    result_.direct_bytes = 0;
    for (uint32_t v = 0; v < vertices_.size(); ++v) {
      if (chosen[v] && costs[v] >= unaffordable)
        throw UserError("the backward of this function needs a value that a write has taken");
      saved_[vertices_[v]->id] = chosen[v];
    }
    for (const Value* value : vertices_)
      if (direct_[value->id] && (!is_input(*value) || mutated_[value->id]))
        result_.direct_bytes += bytes_of(*value->type);
  }

  /// The backward begins with what came last. Where that is computed again from what the backward reads much later
  /// (a sum of residuals, of which each layer reads one), the latter is there from the beginning of the backward
  /// on, and nothing is won: of such a chain some are saved. True: they are banned now.
  bool ban_long_chains() {
    // When a value is first and last read: how many library calls of the backward are before.
    std::unordered_map<const Value*, std::pair<uint32_t, uint32_t>> read_at;
    uint32_t calls = 0;
    const auto note = [&](const Value* operand) {
      const Value* value = resolved(operand);
      while (is_view(*value)) value = resolved(value->def->operands[0]);
      read_at.try_emplace(value, calls, calls).first->second.second = calls;
    };
    for (const Node* node : backward_) {
      for (const Value* operand : node->operands) note(operand);
      calls += reads_memory(*node);
    }
    const uint32_t much_later = calls / 8;
    // Of each value that is computed again, the largest by when all that it is computed of has been read.
    struct Latest {
      uint32_t at = 0;
      int64_t bytes = 0;
    };
    std::unordered_map<const Value*, Latest> latest;
    bool any = false;
    for (const Node* node = graph_.first(); node && node != joint_.first_backward; node = node->next)
      for (const Value& value : node->results) {
        if (!place_.contains(&value) || saved_[value.id] || is_number(value) || !is_cheap(*node)) continue;
        Latest own;
        for (const Value* operand : node->operands) {
          const auto known = latest.find(resolved(operand));
          if (known != latest.end() && known->second.at >= own.at) own = known->second;
        }
        const auto read = read_at.find(&value);
        const int64_t bytes = bytes_of(*value.type);
        if (read != read_at.end() && !is_view(value)) {
          if (own.at > read->second.first + much_later && 2 * own.bytes >= bytes && may_be_repeated(value)) {
            any = banned_[value.id] = true;
            continue;
          }
          if (read->second.second >= own.at) own = {read->second.second, bytes};
        }
        latest.emplace(&value, own);
      }
    return any;
  }

  /// What the backward graph reads of the forward part, in itself and where it computes a value again.
  void find_reads() {
    std::vector<const Value*> stack;
    const auto read = [&](const Value* value) {
      read_directly_.insert(resolved(value));
      stack.push_back(resolved(value));
    };
    for (const Node* node : backward_)
      for (const Value* operand : node->operands) read(operand);
    for (size_t k = joint_.first_gradient; k < graph_.outputs().size(); ++k) read(graph_.outputs()[k]);
    std::unordered_set<const Value*> seen;
    while (!stack.empty()) {
      const Value* one = stack.back();
      stack.pop_back();
      if (in_backward_[one->id] || saved_[one->id] || !seen.insert(one).second) continue;
      for (const Value* operand : one->def->operands) {
        read_again_.insert(resolved(operand));
        stack.push_back(resolved(operand));
      }
    }
  }

  void save_input(const Value& value, uint32_t number) {
    for (const Saved::Kind kind : {Saved::Kind::held, Saved::Kind::input}) {
      if (!(kind == Saved::Kind::held ? read_again_ : read_directly_).contains(&value)) continue;
      order_.push_back(&value);
      result_.saved.push_back({kind, number});
    }
  }

  void make_forward() {
    auto forward = std::make_unique<Graph>(graph_.name());
    SymbolicCopy copier(graph_, *forward);
    for (size_t k = 0; k < joint_.first_tangent; ++k) copier.copy_input(graph_.inputs()[k]);
    for (const Node* node = graph_.first(); node && node != joint_.first_backward; node = node->next)
      copier.copy(*node);
    for (size_t k = 0; k < joint_.first_gradient; ++k) forward->outputs().push_back(copier[graph_.outputs()[k]]);
    for (const Mutation& mutation : graph_.mutations())
      forward->mutations().push_back({mutation.input, copier[mutation.value]});
    // In the order in which they are defined, inputs first.
    for (size_t k = 0; k < joint_.first_tangent; ++k) {
      const Value& value = *graph_.inputs()[k].value;
      if (!saved_[value.id]) continue;
      if (!mutated_[value.id]) {
        save_input(value, static_cast<uint32_t>(k));
        continue;
      }
      order_.push_back(&value);
      result_.saved.push_back({Saved::Kind::output, static_cast<uint32_t>(forward->outputs().size())});
      result_.saved_bytes += bytes_of(*value.type);
      forward->outputs().push_back(copier[&value]);
    }
    for (const Node* node = graph_.first(); node && node != joint_.first_backward; node = node->next)
      for (const Value& value : node->results) {
        if (!saved_[value.id]) continue;
        order_.push_back(&value);
        if (const auto written = written_to_.find(&value); written != written_to_.end()) {
          result_.saved.push_back({Saved::Kind::written, written->second});
          continue;
        }
        // No kernel copies it: a call must have made it.
        if (!is_kernel_dtype(value.type->dtype) && node->op != Op::call)
          throw UserError("the backward of this function needs a value of a type that no kernel reads");
        Value* made = copier[&value];
        auto& outputs = forward->outputs();
        const auto known = std::ranges::find(outputs, made);
        result_.saved.push_back({Saved::Kind::output, static_cast<uint32_t>(known - outputs.begin())});
        if (known == outputs.end()) outputs.push_back(made);
        result_.saved_bytes += bytes_of(*value.type);
      }
    result_.forward = std::move(forward);
  }

  void make_backward() {
    auto backward = std::make_unique<Graph>(concat(graph_.name(), "_backward"));
    SymbolicCopy copier(graph_, *backward);
    std::unordered_map<const Value*, Value*> now;  // Inputs that are held, too.
    for (size_t k = 0; k < order_.size(); ++k) {
      const Saved& saved = result_.saved[k];
      const bool is_input = saved.kind != Saved::Kind::output;
      const Type& lies = is_input ? *graph_.inputs()[saved.index].value->type : *order_[k]->type;
      Value* const held = copier.has(*order_[k]) ? copier[order_[k]] : nullptr;
      copier.add_input(*order_[k], concat("saved", k), lies);
      if (held) now.emplace(order_[k], copier.exchange(*order_[k], held));
    }
    const auto as_now = [&](const Value* value, Value* copy) {
      const auto known = now.find(resolved(value));
      return known == now.end() ? copy : known->second;
    };
    for (size_t k = joint_.first_tangent; k < graph_.inputs().size(); ++k) copier.copy_input(graph_.inputs()[k]);
    for (const Node* node : backward_) {
      for (const Value* operand : node->operands) compute(*resolved(operand), copier);
      copier.copy(*node);
      Node* const made = backward->last();
      for (size_t k = 0; k < made->operands.size(); ++k)
        made->operands[k] = as_now(node->operands[k], made->operands[k]);
    }
    for (size_t k = joint_.first_gradient; k < graph_.outputs().size(); ++k) {
      compute(*resolved(graph_.outputs()[k]), copier);
      backward->outputs().push_back(as_now(graph_.outputs()[k], copier[graph_.outputs()[k]]));
    }
    result_.backward = std::move(backward);
  }

  /// Once more, just before it is wanted.
  void compute(const Value& value, SymbolicCopy& copier) {
    std::vector<const Value*> stack{&value};
    while (!stack.empty()) {
      const Value* one = stack.back();
      if (copier.has(*one)) {
        stack.pop_back();
        continue;
      }
      BRAZE_CHECK(!is_input(*one) && is_cheap(*one->def), "the backward part needs what was not saved");
      const size_t before = stack.size();
      for (const Value* operand : one->def->operands)
        if (!copier.has(*resolved(operand))) stack.push_back(resolved(operand));
      if (stack.size() > before) continue;
      copier.copy(*one->def);
      stack.pop_back();
    }
  }

  const Joint joint_;
  const Graph& graph_;
  std::vector<const Node*> backward_;
  std::vector<bool> in_backward_;  ///< By Value::id: defined in the backward part, or a tangent.
  std::vector<bool> direct_;       ///< Eager autograd saves it.
  std::vector<bool> banned_;       ///< Must be in memory where the backward part reads it.
  std::vector<bool> visible_;      ///< The user has its memory.
  std::vector<bool> mutated_;      ///< An input that the forward part writes.
  std::vector<bool> saved_;
  std::vector<const Value*> needed_;  ///< Of the forward part, by nodes of the backward part.
  std::vector<const Value*> vertices_;
  std::unordered_map<const Value*, uint32_t> place_;       ///< In vertices_.
  std::vector<const Value*> order_;                        ///< What is saved.
  std::unordered_map<const Value*, uint32_t> written_to_;  ///< Values that inputs have at the end.
  std::unordered_set<const Value*> read_directly_, read_again_;
  Partition result_;
};

}  // namespace

std::vector<std::optional<uint32_t>> saved_twice(const std::vector<Saved>& saved) {
  using Kind = Saved::Kind;
  std::vector<std::optional<uint32_t>> places(saved.size());
  for (uint32_t k = 0; k + 1 < saved.size(); ++k)
    if (saved[k].kind == Kind::held && saved[k + 1].kind == Kind::input && saved[k + 1].index == saved[k].index)
      places[k] = k + 1;
  return places;
}

Partition partition(const Joint& joint) {
  return Partitioner(joint).run();
}

}  // namespace braze::passes
