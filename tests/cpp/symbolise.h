// tests/cpp/symbolise.h: graphs of numbers made graphs of symbols.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace braze::test {

/// The same graph with a symbol for every number above 1 that is a size, with that number as its example; equal
/// numbers are one symbol. Starts, steps and pads stay numbers. Guards say what the nodes rely on.
std::unique_ptr<ir::Graph> symbolise(const ir::Graph& graph);

}  // namespace braze::test
