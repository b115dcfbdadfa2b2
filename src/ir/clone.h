// ir/clone.h: a graph once more, as if it had been traced at other sizes.
#pragma once

#include <memory>
#include <span>

#include "ir/graph.h"

namespace braze::ir {

/// A copy with the same symbols, guards and nodes. Its examples, from which lowering takes what is fast, are these.
/// \param examples  a value for every symbol, by slot, that keeps all guards; ShapeEnv::examples() for the same
/// ones. Throws UserError where they do not.
std::unique_ptr<Graph> clone(const Graph& graph, std::span<const int64_t> examples);

}  // namespace braze::ir
