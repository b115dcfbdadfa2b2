// passes/independent_rows.h: whether each row of a graph's results depends on the same row of its inputs alone, as
// of a model that is given a batch.
//
//   graph @f[n = 8](%x: f32[n,64], %w: f32[64,32]) {
//     %0 = mm %x, %w : f32[n,32]
//     %1 = softmax %0, dim=1 : f32[n,32]
//     return %1                                  rows of n: dimension 0 of %x and of the result
//
// Then the graph may be run with more rows than there are, and the others thrown away (runtime/padded_program.h).
// What is not seen to be so is refused with its reason: sums over the rows, places that depend on how many there
// are, random numbers, inputs that are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace braze::passes {

/// Where the rows of a value lie: its dimension `dim` has `block` elements for each.
struct Rows {
  uint32_t dim = 0;
  ir::Size block = 1;
  bool operator==(const Rows&) const = default;
};

struct IndependentRows {
  std::vector<std::optional<Rows>> inputs, outputs;  ///< Of the graph; none: it has no rows.
  std::string refused;                               ///< Why they are not independent; empty: they are.
};

/// \param graph  expressions are made in its table of sizes, otherwise it stays as it is.
/// \param slot   of the symbol that counts the rows.
IndependentRows independent_rows(ir::Graph& graph, uint32_t slot);

}  // namespace braze::passes
