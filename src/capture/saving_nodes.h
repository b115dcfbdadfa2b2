// capture/saving_nodes.h: which of autograd's nodes save something, and so run once unless the graph is retained.
//
// What a backward program reads does not tell: eager's node of `x * 2.5` saves the number. So each node is asked:
// its saved variables are released, and it is run on undefined gradients, of which it computes nothing.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "capture/trace.h"

namespace braze::capture {

/// Of each node, the roots that lead to it, and the leaves that it leads to, behind which results count: by ways
/// that lead through no other result.
using NodeReach = std::unordered_map<const torch::autograd::Node*, Gradients::Saving>;

/// Numbers of results, by the edge that arrives at one.
using ResultsByEdge = std::unordered_map<torch::autograd::Edge, uint32_t>;
ResultsByEdge results_by_edge(const std::vector<torch::autograd::Edge>& results);

/// \param order    all nodes of a backward, as they have run.
/// \param results  the roots, and behind them others, at which ways end as well.
/// \param leaf_of  those at which gradients arrive, by number.
NodeReach reach_of(const std::vector<torch::autograd::Node*>& order,
                   const std::vector<torch::autograd::Edge>& results, size_t roots,
                   const std::unordered_map<const torch::autograd::Node*, uint32_t>& leaf_of);

/// \param order  they are spent afterwards.
/// \returns the nodes that raise at a second run, by the roots that lead to them and the leaves that they lead to;
///          those alone whose neighbours do not raise for the same runs anyway.
std::vector<Gradients::Saving> saving_nodes(
    const std::vector<torch::autograd::Node*>& order, const NodeReach& reach,
    const std::unordered_map<const torch::autograd::Node*, uint32_t>& leaf_of);

}  // namespace braze::capture
