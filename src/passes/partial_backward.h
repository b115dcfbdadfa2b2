// passes/partial_backward.h: a backward graph for fewer tangents and fewer gradients.
//
//   graph @two(%saved0: f32[8], %tangent0: f32[8], %tangent1: f32[8]) {    graph @two(%tangent1: f32[8]) {
//     %0 = rsqrt %saved0 : f32[8]                                            %0 = scalar value=2.0 : f32[]
//     %1 = mul %tangent0, %0 : f32[8]                                        %1 = mul %tangent1, %0 : f32[8]
//     %2 = scalar value=2.0 : f32[]                                          return %1
//     %3 = mul %tangent1, %2 : f32[8]                                      }
//     %4 = add %1, %3 : f32[8]
//     return %4
//   }
//
// A tangent that nobody gives is no tangent of zeros: 0 times an infinite derivative is NaN, and eager skips what
// no gradient reaches. A backward is linear in its tangents, so what depends on undefined ones alone is undefined
// itself, and adds nothing; where it meets something else in another operator than an addition it is zero.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"
#include "support/bits.h"

namespace braze::passes {

/// Tangents are the inputs from first_tangent on, so many; outputs are gradients.
struct Backward {
  const ir::Graph* graph;
  size_t first_tangent, tangents;
};

struct PartialBackward {
  /// Where a gradient of the whole graph comes from.
  struct Gradient {
    enum class Kind : uint8_t {
      none,     ///< It is not wanted, or depends on no defined tangent.
      tangent,  ///< It is that one.
      output
    } kind = Kind::none;
    uint32_t index = 0;  ///< Among the tangents of the whole graph, or the outputs of this one.
  };
  std::shared_ptr<ir::Graph> graph;  ///< With the symbols and guards of the whole one, if it has any.
  std::vector<uint32_t> inputs;      ///< Of the whole graph, those that this one takes, in order.
  std::vector<Gradient> gradients;   ///< By output of the whole graph.
};

/// Inputs that are bound stay, read or not. Throws UserError where zeros of a type are needed that only ATen knows.
PartialBackward partial_backward(const Backward& whole, const Bits& defined, const Bits& wanted);

/// Nodes that read something beside tangents, by what leads to them and what they lead to: where eager's nodes save
/// tensors. What has run without its graph being retained does not run again.
struct BackwardReaders {
  Bits tangents, gradients;  ///< The latter by output.
  Bits saved;                ///< Which inputs before the tangents they read.
};
std::vector<BackwardReaders> backward_readers(const Backward& whole);

}  // namespace braze::passes
