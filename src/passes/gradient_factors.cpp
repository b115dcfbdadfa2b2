#include "passes/gradient_factors.h"

namespace braze::passes {

GradientFactors::GradientFactors(const ir::Graph& graph, size_t first_tangent, size_t tangents,
                                 const std::function<bool(uint32_t)>& is_wanted)
    : none_(tangents),
      reads_(graph.value_limit()),
      tangents_(graph.value_limit()),
      with_factors_(graph.value_limit()) {
  for (uint32_t k = 0; k < first_tangent; ++k) reads_[graph.inputs()[k].value->id] = is_wanted(k);
  for (size_t k = 0; k < tangents; ++k) {
    Bits tangent = none_;
    tangent.set(k);
    tangents_[graph.inputs()[first_tangent + k].value->id] = std::move(tangent);
  }
  for (const ir::Node* node = graph.first(); node; node = node->next) visit(*node);
}

void GradientFactors::visit(const ir::Node& node) {
  bool reads = false;
  Bits tangents = none_, with_factors = none_;
  for (ir::Value* const given : node.operands) {
    const ir::Value* const operand = ir::Graph::resolve(given);
    reads = reads || reads_[operand->id];
    tangents |= at(tangents_, operand);
    with_factors |= at(with_factors_, operand);
  }
  const bool is_factor = !tangents.any();
  if (reads) with_factors |= tangents;
  for (const ir::Value& result : node.results) {
    reads_[result.id] = reads && is_factor;
    if (is_factor) continue;
    tangents_[result.id] = tangents;
    with_factors_[result.id] = with_factors;
  }
}

}  // namespace braze::passes
