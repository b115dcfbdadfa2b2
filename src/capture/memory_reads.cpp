#include "capture/memory_reads.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "capture/recorder.h"

namespace braze::capture {
namespace {

/// Reads lie below the dispatcher, which hands nothing down.
thread_local MemoryReads* current_reads = nullptr;

}  // namespace

MemoryReads::Scope::Scope(MemoryReads& reads) : outer_(std::exchange(current_reads, &reads)) {}

MemoryReads::Scope::~Scope() {
  current_reads = outer_;
}

MemoryReads* MemoryReads::current() {
  return current_reads;
}

void MemoryReads::note(const Memory& memory, ir::Value* value) {
  while (value->id >= first_id_ && ir::info(value->def->op).kind == ir::OpKind::View)
    value = ir::Graph::resolve(value->def->operands[0]);
  if (value->id >= first_id_) return;
  const bool is_number = value->def && value->def->operands.empty() && value->type->rank() == 0;
  count_ += !is_number;
  std::vector<const Memory*>& through = through_[value];
  if (through.empty()) values_.push_back(value);
  if (std::ranges::find(through, &memory) == through.end()) through.push_back(&memory);
}

std::vector<ir::Value*> MemoryReads::only_through(const std::function<bool(const Memory&)>& is_private) const {
  std::vector<ir::Value*> found;
  for (ir::Value* value : values_)
    if (std::ranges::all_of(through_.at(value), [&](const Memory* memory) { return is_private(*memory); }))
      found.push_back(value);
  return found;
}

void keep_copies(ir::Graph& graph, ir::Node* first_backward, size_t first_gradient,
                 std::span<ir::Value* const> values) {
  if (!first_backward) return;
  const auto resolved = [](ir::Value* value) { return ir::Graph::resolve(value); };
  std::unordered_set<const ir::Value*> visible;
  for (const ir::Input& input : graph.inputs()) visible.insert(input.value);
  for (const ir::Mutation& mutation : graph.mutations()) visible.insert(resolved(mutation.value));
  for (size_t k = 0; k < first_gradient; ++k) visible.insert(resolved(graph.outputs()[k]));

  std::unordered_map<const ir::Value*, ir::Value*> copies;
  graph.set_insertion_point(first_backward);
  for (ir::Value* read : values) {
    ir::Value* const value = resolved(read);
    ir::Value* root = value;
    while (ir::info(root->def->op).kind == ir::OpKind::View) root = resolved(root->def->operands[0]);
    if (!visible.contains(root) || !ir::is_kernel_dtype(value->type->dtype)) continue;
    // Two programs share the copy: its type says how the first stores it.
    ir::Value* const packed = densified(graph, value);
    copies.emplace(value, packed == value ? graph.create(ir::Op::cast, {value}, {}, value->type) : packed);
  }
  graph.set_insertion_point(nullptr);
  if (copies.empty()) return;
  const auto replace = [&](ir::Value*& operand) {
    if (const auto copy = copies.find(resolved(operand)); copy != copies.end()) operand = copy->second;
  };
  for (ir::Node* node = first_backward; node; node = node->next) std::ranges::for_each(node->operands, replace);
  const auto gradients = std::span(graph.outputs()).subspan(first_gradient);
  std::ranges::for_each(gradients, replace);
}

}  // namespace braze::capture
