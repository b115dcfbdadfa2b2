#include "passes/early_gathers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/infer.h"

namespace braze::passes {

using namespace ir;

namespace {

constexpr int64_t kFewer = 4;        ///< How many times fewer elements must be gathered than there are.
constexpr int kMostOperations = 16;  ///< That are done again for a gathered element.

/// Whether a value is in memory without anybody gathering from it.
bool is_stored(const Value* value) {
  while (info(value->def->op).kind == OpKind::View) value = Graph::resolve(value->def->operands[0]);
  const OpKind kind = info(value->def->op).kind;
  return value->def->op == Op::input || kind == OpKind::Library || kind == OpKind::Reduction;
}

/// One gather, moved in front of the arithmetic that its operand comes from.
class Move {
 public:
  Move(Graph& graph, const Node& gather, const std::vector<bool>& needed)
      : graph_(graph),
        needed_(needed),
        indices_(Graph::resolve(gather.operands[1])),
        values_(Graph::resolve(gather.operands[0])),
        result_(gather.results[0].type),
        dim_(gather.int_attr("dim")) {}

  bool is_possible() {
    const Type& all = *values_->type;
    if (!is_elementwise(values_->def->op) || needed(values_)) return false;
    const SizeRules rules = graph_.prove();
    // Right either way: the example tells which is less work.
    if (rules.hint(result_->symbolic_numel()) * kFewer > rules.hint(all.symbolic_numel())) return false;
    for (int64_t k = 0; k < all.rank(); ++k)
      if (k != dim_ && !rules.equal(all.sizes.symbolic()[k], result_->sizes.symbolic()[k])) return false;
    return can_pick(values_);
  }

  Value* picked() { return pick(values_); }

 private:
  bool needed(const Value* value) const { return value->id < needed_.size() && needed_[value->id]; }

  /// Whether elements along `dim` differ.
  bool varies(const Value* value) const {
    const int64_t k = dim_ - (values_->type->rank() - value->type->rank());
    return k >= 0 && value->type->sizes.symbolic()[k] != 1;
  }

  bool can_pick(const Value* value) {
    if (!varies(value) || needed(value)) return true;
    const Node& node = *value->def;
    if (!is_elementwise(node.op)) return is_stored(value);
    if (has(node.op, traits::raises) || ++operations_ > kMostOperations) return false;
    return std::ranges::all_of(node.operands, [this](Value* operand) { return can_pick(Graph::resolve(operand)); });
  }

  Value* pick(Value* value) {
    if (!varies(value)) return value;
    const auto known = std::ranges::find(picked_, value, &std::pair<Value*, Value*>::first);
    if (known != picked_.end()) return known->second;
    const auto sizes = result_->sizes.symbolic();
    const Type* type =
        value->type->dtype == result_->dtype
            ? result_
            : graph_.symbolic_type(value->type->dtype, result_->device, sizes, contiguous_strides(sizes));
    Value* result = nullptr;
    if (is_elementwise(value->def->op) && !needed(value)) {
      std::vector<Value*> operands;
      for (Value* operand : value->def->operands) operands.push_back(pick(Graph::resolve(operand)));
      result = graph_.create(value->def->op, operands, value->def->attrs, std::span(&type, 1))->result();
    } else {
      result = graph_.create(Op::gather, {expanded(value), indices_}, {{"dim", dim_}}, type);
    }
    picked_.emplace_back(value, result);
    return result;
  }

  /// In the shape of all values.
  Value* expanded(Value* value) {
    const auto to = values_->type->sizes.symbolic();
    if (std::ranges::equal(value->type->sizes.symbolic(), to)) return value;
    return graph_.add(Op::expand, {value}, {}, {.sizes = {{to.begin(), to.end()}}});
  }

  Graph& graph_;
  const std::vector<bool>& needed_;
  Value *indices_, *values_;
  const Type* result_;
  int64_t dim_;
  int operations_ = 0;
  std::vector<std::pair<Value*, Value*>> picked_;
};

/// By Value::id, what has to be in memory: outputs, and what others than arithmetic, reductions and gathers read.
std::vector<bool> needed_in_memory(const Graph& graph) {
  std::vector<bool> needed(graph.value_limit());
  for (const Node* node = graph.first(); node; node = node->next) {
    const OpKind kind = info(node->op).kind;
    if (is_elementwise(node->op) || kind == OpKind::Reduction || node->op == Op::gather) continue;
    for (const Value* operand : node->operands) needed[operand->id] = true;
  }
  for (const Value* output : graph.outputs()) needed[output->id] = true;
  for (const Mutation& mutation : graph.mutations()) needed[mutation.value->id] = true;
  return needed;
}

}  // namespace

void early_gathers(Graph& graph) {
  std::vector<bool> needed;
  Node* const insertion_point = graph.insertion_point();
  const std::string_view source = graph.source();
  for_each_node(graph, [&](Node* node) {
    for (Value*& operand : node->operands) operand = Graph::resolve(operand);
    if (node->op != Op::gather) return;
    if (needed.empty()) needed = needed_in_memory(graph);
    Move move(graph, *node, needed);
    if (!move.is_possible()) return;
    graph.set_insertion_point(node);
    graph.set_source(node->source);
    graph.replace(node->result(), move.picked());
    graph.erase(node);
  });
  graph.set_insertion_point(insertion_point);
  graph.set_source(source);
  graph.apply_replacements();
}

}  // namespace braze::passes
