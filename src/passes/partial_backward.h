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
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "support/bits.h"

namespace braze::passes {

/// Tangents are the inputs from first_tangent on, so many; outputs are gradients.
struct Backward {
  const ir::Graph* graph = nullptr;
  size_t first_tangent = 0, tangents = 0;
  size_t never_given = 0;  ///< So many of the last inputs are tangents that are always undefined.
};

/// A tangent, and the output that is the sum of it and of what comes to the same place from other tangents; or an
/// output alone that is what comes to a place from tangents, and is read by what goes on from there.
struct Inner {
  std::optional<uint32_t> tangent;
  uint32_t output;
};

/// A backward that ends at such places and begins at them: the output is what comes there from other tangents, and
/// the tangent is all that has come. So the sum may be made, seen and changed outside. What goes on from a place
/// without a tangent is left out: it goes on outside.
struct Parted {
  std::shared_ptr<const ir::Graph> graph = {};
  Backward backward = {};  ///< It has the inputs and outputs of the whole one, and some inputs behind.
};
Parted part_at(const Backward& whole, std::span<const Inner> inner);

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
