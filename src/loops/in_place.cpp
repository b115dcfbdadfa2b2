#include "loops/in_place.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace braze::loops {

using ir::Node;
using ir::OpKind;
using ir::Value;

namespace {

bool can_fail(const Unit& unit) {
  return unit.call ||
         std::ranges::any_of(unit.group->nodes, [](const Node* node) { return loops::can_fail(*node); });
}

/// Every access of a kernel to two of its buffers.
class Accesses {
 public:
  Accesses(const Kernel& kernel, BufferId stored, BufferId old) : kernel_(kernel), stored_(stored), old_(old) {}

  /// There is one store, to each element once, and every load of the old contents stands before it, in the same
  /// block, and reads the same element.
  bool are_in_place() {
    visit(kernel_.body);
    if (!plain_ || !store_ || store_->predicate != none) return false;
    for (const auto& [load, block] : loads_)
      if (block != store_block_ || load->predicate != none || load->index != store_->index) return false;
    // Each loop around it moves the place, and nothing else does.
    const auto& terms = store_->index.terms;
    const auto moves = [&](ValueId var) {
      return std::ranges::any_of(terms, [&](const Affine::Term& term) { return term.value == var; });
    };
    size_t moving = 0;
    for (const Loop* loop : store_loops_) {
      if (loop->begin_value != none || loop->end_value != none) return false;
      const bool known = loop->begin.is_constant() && loop->end.is_constant();
      if (moves(loop->var))
        ++moving;
      else if (!known || loop->end.constant - loop->begin.constant > loop->step)
        return false;
    }
    return moving == terms.size();
  }

 private:
  void visit(const Block& block) {
    for (const Stmt& stmt : block) {
      const bool here = stmt.buffer == stored_ || stmt.buffer == old_ ||
                        std::ranges::any_of(stmt.sources, [&](BufferId id) { return id == stored_ || id == old_; });
      if (here && stmt.kind == StmtKind::load && stmt.buffer == old_ && !store_) {
        loads_.emplace_back(&stmt, &block);
      } else if (here && stmt.kind == StmtKind::store && stmt.buffer == stored_ && !store_) {
        store_ = &stmt;
        store_block_ = &block;
        store_loops_ = loops_;
      } else if (here) {
        plain_ = false;
      }
      if (stmt.loop) {
        loops_.push_back(stmt.loop.get());
        visit(stmt.loop->body);
        loops_.pop_back();
      }
      // Kernels with these are not looked into.
      plain_ &= stmt.body.empty();
    }
  }

  const Kernel& kernel_;
  const BufferId stored_, old_;
  bool plain_ = true;
  const Stmt* store_ = nullptr;
  const Block* store_block_ = nullptr;
  std::vector<const Loop*> loops_, store_loops_;
  std::vector<std::pair<const Stmt*, const Block*>> loads_;
};

/// Buffer `gone` becomes `kept`; those above it move down.
void rename(Block& block, BufferId gone, BufferId kept) {
  const auto renamed = [&](BufferId id) {
    if (id == none) return id;
    if (id == gone) id = kept;
    return id > gone ? id - 1 : id;
  };
  for (Stmt& stmt : block) {
    stmt.buffer = renamed(stmt.buffer);
    if (stmt.kind == StmtKind::store && stmt.buffer == renamed(kept)) stmt.stream = false;  // its line is at hand
    for (BufferId& source : stmt.sources) source = renamed(source);
    if (stmt.loop) rename(stmt.loop->body, gone, kept);
    rename(stmt.body, gone, kept);
  }
}

std::optional<size_t> parameter_of(const KernelDraft& draft, const Value* value) {
  for (size_t k = 0; k < draft.parameters.size(); ++k)
    if (draft.parameters[k].value == value) return k;
  return std::nullopt;
}

BufferId buffer_of(const Kernel& kernel, size_t parameter) {
  for (BufferId id = 0;; ++id)
    if (kernel.buffers[id].is_parameter && parameter-- == 0) return id;
}

}  // namespace

bool can_fail(const Node& node) {
  const OpKind kind = ir::info(node.op).kind;
  return kind == OpKind::Library || kind == OpKind::Gather || kind == OpKind::Update || status_of(node.op) != 0;
}

InPlace::InPlace(const ir::Graph& graph, Windows& windows, const std::vector<bool>& writable)
    : input_of_(graph.value_limit(), -1), graph_(graph) {
  for (const ir::Mutation& mutation : graph.mutations()) {
    const Value *value = mutation.value, *input = graph.inputs()[mutation.input].value;
    if (mutation.input >= writable.size() || !writable[mutation.input]) continue;
    const OpKind kind = ir::info(value->def->op).kind;
    const bool computed = windows.is_base(value) && kind != OpKind::Source && kind != OpKind::Library &&
                          kind != OpKind::Concat && kind != OpKind::Update && kind != OpKind::Scan;
    const auto& strides = windows.storage(value);
    const bool same_layout =
        std::ranges::equal(strides, input->type->strides.symbolic()) &&
        is_dense(input->type->sizes.symbolic(), input->type->strides.symbolic(), windows.rules());
    if (!computed || !same_layout || input_of_[value->id] >= 0 || value->def->op == ir::Op::input) continue;
    input_of_[value->id] = mutation.input;
    // A caller's tensor lies where it likes.
    windows.set_alignment(value, ir::byte_size(value->type->dtype));
  }
}

void InPlace::set_units(const std::vector<Unit>& units, const Facts& facts) {
  std::unordered_map<const Node*, size_t> unit_of;
  size_t after_failures = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    if (can_fail(units[u])) after_failures = u + 1;
    if (units[u].call) unit_of[units[u].call] = u;
    if (units[u].group)
      for (const Node* node : units[u].group->nodes) unit_of[node] = u;
  }
  for (const ir::Input& input : graph_.inputs()) {
    size_t& from = safe_from_.emplace_back(after_failures);
    if (facts.escapes(input.value)) from = never;  // read once more at the end
    for (const Node* reader : facts.consumers(input.value)) {
      const auto unit = unit_of.find(reader);
      from = unit == unit_of.end() ? never : std::max(from, unit->second);
    }
  }
}

int64_t InPlace::input_for(const Value* result, size_t unit) const {
  const int64_t input = input_of_[result->id];
  return input >= 0 && safe_from_[static_cast<size_t>(input)] <= unit ? input : -1;
}

bool InPlace::store(KernelDraft& draft, const Value* result, const Value* over) {
  Kernel& kernel = *draft.kernel;
  const auto stored = parameter_of(draft, result), old = parameter_of(draft, over);
  if (!stored) return false;
  const BufferId to = buffer_of(kernel, *stored);
  if (kernel.buffers[to].access != Access::out) return false;
  if (!old) return true;
  const BufferId from = buffer_of(kernel, *old);
  if (kernel.buffers[from].access != Access::in || !Accesses(kernel, to, from).are_in_place()) return false;
  kernel.buffers[to].access = Access::inout;
  rename(kernel.body, from, to);
  kernel.buffers.erase(kernel.buffers.begin() + from);
  draft.parameters.erase(draft.parameters.begin() + static_cast<int64_t>(*old));
  return true;
}

}  // namespace braze::loops
