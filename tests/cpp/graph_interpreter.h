// tests/cpp/graph_interpreter.h: computes a graph element by element, slowly: the oracle for passes.
//
// Floating values are computed in double and rounded to f32, bf16 or f16 after every op; integers in i64 and
// wrapped. Composites are computed by their definitions in double.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace braze::test {

/// The elements of a value in row-major order; integers and bool exactly up to 2^53.
using Elements = std::vector<double>;

/// False if the graph has library calls, gathers or other ops that are not interpreted.
bool can_interpret(const ir::Graph& graph);

/// One list of elements per input; results, then mutated inputs.
std::vector<Elements> interpret(const ir::Graph& graph, const std::vector<Elements>& inputs);

/// Numbers, special ones among them, for each input, in many rounds; says where the two graphs differ. Equal is:
/// both NaN, or the same bits, or, if either graph has composites or reductions, close.
std::optional<std::string> compare(const ir::Graph& a, const ir::Graph& b, int rounds = 40);

/// compare() where sizes are expressions: at the examples, and at many other values of the symbols, 0 and 1 among
/// them, that keep the guards of both. \returns nothing also if there are no symbols and compare() finds nothing.
/// \param computed  counts the values at which the graphs were computed.
std::optional<std::string> compare_at_sizes(const ir::Graph& a, const ir::Graph& b, size_t* computed = nullptr);

}  // namespace braze::test
