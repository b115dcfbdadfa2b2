// passes/partition.h: a joint graph, forward and backward, cut in two.
//
//   graph @joint(%x: f32[8,4], %w: f32[4,4] param, %tangent0: f32[8,4]) {
//     %0 = mm %x, %w : f32[8,4]              ; forward
//     %1 = relu %0 : f32[8,4]
//     ...                                    ; backward: first_backward is the first of these
//     return %1, %5, %6                      ; results, then gradients
//   }
//
// The forward graph gives the results and what the backward graph needs of its work; the backward graph takes that
// and the tangents, and gives the gradients. What is saved is a minimal cut: as few bytes as possible (at the
// example, where sizes are expressions), where cheap elementwise work may be done again instead of being saved. A
// value that eager autograd does not save may be written to by the user between the two, so inputs and results
// count as saved only where eager saves them: what the joint graph's backward reads directly. And what eager saves
// of them is saved, so that its version is checked. Inputs and results may even be written to behind the
// version counter's back (`weight.data`): nothing is computed again of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braze::passes {

/// Where the parts of a joint graph meet.
struct Joint {
  const ir::Graph* graph;
  const ir::Node* first_backward;  ///< Null: gradients are tangents, or what the forward part computes.
  uint32_t first_tangent;          ///< Among the inputs; all behind it are tangents, or constants of the backward.
  uint32_t first_gradient;         ///< Among the outputs.
};

/// A value that the backward graph takes.
struct Saved {
  enum class Kind : uint8_t {
    input,  ///< Of the forward graph. Eager saves it, and reads the memory that it has in the backward.
    /// Likewise, in the memory that it has in the forward, whatever memory it is given in between: what views read.
    held,
    written,  ///< Likewise, as it is when the forward graph has written to it.
    output,
  } kind;
  uint32_t index;
};

/// Of each held input, where it is saved as itself, too.
std::vector<std::optional<uint32_t>> saved_twice(const std::vector<Saved>& saved);

struct Partition {
  // With the symbols and guards of the joint graph, if it has any.
  std::unique_ptr<ir::Graph> forward;   ///< Outputs: those of the joint graph, then saved values.
  std::unique_ptr<ir::Graph> backward;  ///< Inputs: `saved`, then those behind. Outputs: the gradients.
  std::vector<Saved> saved;             ///< An input may be saved twice: first as held.
  int64_t saved_bytes = 0;   ///< Of those, without inputs; at the example sizes where they are expressions.
  int64_t direct_bytes = 0;  ///< That would be saved if nothing were computed again.
};

/// Throws UserError for a backward part that draws random numbers, or has another effect, and for one that needs a
/// value which only ATen knows.
Partition partition(const Joint& joint);

}  // namespace braze::passes
