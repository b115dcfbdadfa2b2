// ir/infer.h: the types of a node's results, by the rule that its row in ops.def names.
//
//   graph.add(Op::sum, {x}, {{"dims", dims}, {"keepdim", true}});            // all of it follows
//   graph.add(Op::cast, {x}, {}, {.dtype = DType::f64});                     // all but the dtype
//   graph.add(Op::reshape, {x}, {}, {.sizes = {{n * 4, Size(2)}}});           // all but the sizes
//
// The verifier holds every node to the same rules. Strides are no part of a type's truth: a result of a view has
// those of the view, any other is laid out as the first operand of its shape, or row-major. What eager PyTorch
// gives where it differs from that, capture states.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/shape_env.h"

namespace braze::ir {

/// What operands and attributes leave open, and the caller says.
struct Stated {
  std::optional<DType> dtype = {};  ///< Of cast, scalar; of layer_norm's mean and rstd.
  std::optional<std::vector<Size>> sizes =
      {};  ///< Of reshape, expand, iota, index_map; of slice, those of the part.
  std::optional<std::vector<Size>> strides = {};  ///< Of the first result, where they are to be others.
  Device device = {};                             ///< Of what has no operands.
  std::span<const Type* const> like = {};  ///< A result of the sizes of one of these is laid out as the first such.
};

/// A result before it has a type.
struct Inferred {
  DType dtype;
  Device device;
  std::vector<Size> sizes, strides;
};

/// A rule that a node breaks.
struct InvalidNode {
  std::string what;
};

/// Operands and attributes of `node` are read, its results are not. Nothing for ops whose types only ATen knows.
/// \throws InvalidNode where they do not fit, or the op wants something stated that is not.
std::vector<Inferred> infer(const Node& node, const Stated& stated, const SizeRules& rules);

}  // namespace braze::ir
