// ir/instantiate.h: a graph whose sizes are expressions, for given values of its symbols.
#pragma once

#include <memory>
#include <span>

#include "ir/graph.h"

namespace braze::ir {

/// A copy in which all sizes are numbers and `size` nodes are scalars.
/// \param symbols  a value for every symbol, by slot; ShapeEnv::examples() for one.
/// \param place  becomes the copy's node of the same place: the first that comes of it or of a later one.
/// \param env  owns the symbols, where the graph is a part of another one.
/// Throws UserError that names the guard or the declared range that the values break.
std::unique_ptr<Graph> instantiate(const Graph& graph, std::span<const int64_t> symbols,
                                   const Node** place = nullptr, const ShapeEnv* env = nullptr);

}  // namespace braze::ir
