#include "loops/cost.h"
#include "loops/fusion.h"

namespace braze::loops {

namespace {

/// Of a value that is computed wherever it is used, from numbers and counters alone: keeps the text of kernels
/// short.
constexpr uint8_t most_free_ops = 12;

}  // namespace

Facts::Facts(const ir::Graph& graph, const Windows& windows, const Targets& targets)
    : windows(windows),
      targets(targets),
      decide(windows.rules()),
      consumers_(graph.value_limit()),
      escapes_(graph.value_limit()),
      alone_(graph.value_limit()),
      free_(graph.value_limit()) {
  ir::for_each_node(graph, [&](const ir::Node* node) {
    const ir::OpKind kind = ir::info(node->op).kind;
    const bool transparent = kind == ir::OpKind::View && !windows.is_base(&node->results[0]);
    if (!transparent) {
      for (const ir::Value* operand : node->operands) {
        auto& list = consumers_[windows.base(operand)->id];
        if (list.empty() || list.back() != node) list.push_back(node);
      }
    }
    if (is_number(node->op) || node->op == ir::Op::iota) {
      free_[node->results[0].id] = 1;
      return;
    }
    if (kind != ir::OpKind::View && !is_cheap(node->op)) return;
    int cost = kind == ir::OpKind::View ? 0 : 1;
    for (const ir::Value* operand : node->operands) {
      if (!free_[operand->id]) return;
      cost += free_[operand->id];
    }
    if (cost <= most_free_ops) free_[node->results[0].id] = static_cast<uint8_t>(cost);
  });
  for (const ir::Value* output : graph.outputs()) escapes_[windows.base(output)->id] = true;
  for (const ir::Mutation& mutation : graph.mutations()) escapes_[windows.base(mutation.value)->id] = true;
}

uint32_t random_access_operands(const ir::Node* node) {
  return (ir::has(node->op, ir::traits::reads_first) ? 1u << 0 : 0) |
         (ir::has(node->op, ir::traits::reads_second) ? 1u << 1 : 0);
}

}  // namespace braze::loops
