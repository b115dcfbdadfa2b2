// loops/schedule/loop_nest.h: from the axes of a group to loops: their order, which are one, which runs over vector
// lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "loops/axes.h"

namespace braze::loops {

/// One way in which a kernel touches memory: elements moved by a step along each leaf axis (0: none).
struct AccessPattern {
  Sizes strides;       ///< Indexed as Leaves::axes.
  int64_t weight = 0;  ///< Bytes moved in all, for the examples; decides between conflicting patterns.
  bool is_store = false;
  const ir::Value* base = nullptr;  ///< Whose memory; null for what only must be compatible.
};

/// The leaf axes of a group, numbered densely.
struct Leaves {
  std::vector<AxisId> axes;
  Sizes sizes;
  std::vector<bool> reduced;
  std::vector<bool> individual;  ///< Its own index is needed (iota, predicates): never made one with another axis.
  size_t index_of(AxisId axis) const;
};

/// Some leaf axes run as one loop, outermost first.
struct LoopAxis {
  std::vector<size_t> leaves;
  Size size = 1;
  size_t innermost() const { return leaves.back(); }
};

/// The loops of a kernel.
///   rows     top-level loop over `outer` (as one), for each a loop over `reduced` a pass, its last over lanes
///   columns  top-level loop over `outer`, in it a lane loop over `lane`, in it serial loops over `reduced`
///   points   top-level loop over `outer`, in it a lane loop over `lane`; nothing reduced
/// Without `outer` axes the lane loop (points, columns) is the top-level loop itself.
struct LoopNest {
  enum class Form : uint8_t { points, rows, columns } form = Form::points;
  std::vector<LoopAxis> outer;    ///< Outermost first.
  std::vector<LoopAxis> reduced;  ///< Outermost first; rows: the last runs over lanes.
  LoopAxis lane;                  ///< points, columns.
  bool has_lane = false;
  Size outer_size() const;
  Size reduced_size() const;
};

/// `short_axis`: fewer lanes waste most of what runs side by side.
LoopNest make_nest(const Leaves& leaves, const std::vector<AccessPattern>& accesses, int64_t short_axis,
                   const SizeRules& rules);

}  // namespace braze::loops
