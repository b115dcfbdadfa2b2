// passes/gradient_factors.h: what a backward multiplies its tangents with.
//
//   graph @joint(%x: f32[8], %tangent0: f32[8], %tangent1: f32[8]) {
//     %0 = cos %x : f32[8]
//     %1 = mul %tangent0, %0 : f32[8]
//     %2 = add %1, %tangent1 : f32[8]        its factors depend on x where tangent 0 is given
//     return %2
//   }
//
// A backward is linear in its tangents: each value is one that reads none, a factor, or a sum of tangents that
// factors have been multiplied with.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "support/bits.h"

namespace braze::passes {

class GradientFactors {
 public:
  /// \param is_wanted  of an input before the tangents: whether what depends on it is asked for.
  GradientFactors(const ir::Graph& graph, size_t first_tangent, size_t tangents,
                  const std::function<bool(uint32_t)>& is_wanted);
  /// By tangent: it is multiplied with something that depends on such an input.
  const Bits& of(const ir::Value* gradient) const { return at(with_factors_, gradient); }

 private:
  const Bits& at(const std::vector<std::optional<Bits>>& side, const ir::Value* value) const {
    return side[value->id] ? *side[value->id] : none_;
  }
  void visit(const ir::Node& node);

  const Bits none_;
  std::vector<bool> reads_;  ///< By value: it is a factor that depends on such an input.
  std::vector<std::optional<Bits>> tangents_, with_factors_;
};

}  // namespace braze::passes
