// passes/backward_stages.h: a backward graph in stages, each of which gives some of the gradients.
//
//   graph @b(%saved0, %saved1, %tangent0) {        stage 0: (%saved1, %tangent0) -> %0, hands %2 on
//     %0 = mm %saved1, %tangent0                   stage 1: (%2, %saved0) -> %3
//     %1 = mm %tangent0, ...
//     %2 = ...
//     %3 = mm %saved0, %2
//     return %0, %3
//   }
//
// Who waits for gradients, to send them to other processes or to step an optimizer, begins while later stages run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"

namespace braze::passes {

struct BackwardStage {
  std::unique_ptr<ir::Graph> graph;
  /// Of the whole graph; those behind its inputs are values that earlier stages hand on.
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> gradients;  ///< Outputs of the whole graph that its first outputs are.
  std::vector<uint32_t> handed_on;  ///< What its other outputs are, as in `inputs`.
};

struct StageSizes {
  int64_t least = 1 << 20;  ///< Bytes of gradients. The first bucket of DistributedDataParallel has so many.
  size_t most = 8;          ///< Stages.
};

/// Of an input that is read last in stage k, whatever it leads to, the gradient may be given in that stage.
///
/// \param before  by output: inputs that are not read any more when it is given. Whoever is given the gradient of a
///                parameter may step it.
/// \returns fewer than two stages where the gradients are too few. Values that lie between stages are as few as
///          there are nearby.
std::vector<BackwardStage> backward_stages(const ir::Graph& backward,
                                           const std::vector<std::vector<uint32_t>>& before,
                                           const StageSizes& sizes = {});

}  // namespace braze::passes
