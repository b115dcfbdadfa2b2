// ir/verify_node.h: the verifier's rules for one node; verify.cpp walks the graph.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"
#include "ir/shape_env.h"

namespace braze::ir {

/// What is wrong with the node's attributes, operand and result types; nothing if all is well. Assumes that
/// operands and results are in the numbers that ops.def states. \param rules  those that prove.
std::optional<std::string> complaint(const Node& node, const SizeRules& rules);

}  // namespace braze::ir
