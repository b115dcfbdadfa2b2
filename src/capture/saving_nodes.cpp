#include "capture/saving_nodes.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <typeinfo>

#include "capture/rerun_gradients.h"

namespace braze::capture {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

bool raises_when_released(Node& node) {
  // Of ours: what a function of the user's saves is read by its own code, or not.
  const bool is_ours = std::string_view(typeid(node).name()).find("braze") != std::string_view::npos;
  if (is_ours && !is_rerun(node)) return false;
  node.release_variables();
  try {
    node(variable_list(node.num_inputs()));
    return false;
  } catch (const c10::Error& error) {
    return std::string_view(error.what_without_backtrace()).find("a second time") != std::string_view::npos;
  }
}

}  // namespace

ResultsByEdge results_by_edge(const std::vector<Edge>& results) {
  ResultsByEdge by_edge;
  for (uint32_t k = 0; k < results.size(); ++k) by_edge.emplace(results[k], k);
  return by_edge;
}

NodeReach reach_of(const std::vector<Node*>& order, const std::vector<Edge>& results, size_t roots,
                   const std::unordered_map<const Node*, uint32_t>& leaf_of) {
  NodeReach at;
  const ResultsByEdge result_at = results_by_edge(results);
  for (const Node* node : order) at[node] = {Bits(roots), Bits(leaf_of.size() + results.size())};
  for (size_t k = 0; k < roots; ++k) at.at(results[k].function.get()).tangents.set(k);
  for (const Node* node : order)
    for (const Edge& edge : node->next_edges())
      if (const auto next = at.find(edge.function.get()); next != at.end() && !result_at.contains(edge))
        next->second.tangents |= at.at(node).tangents;
  for (const Node* node : order | std::views::reverse) {
    Bits& gradients = at.at(node).gradients;
    if (const auto leaf = leaf_of.find(node); leaf != leaf_of.end()) {
      gradients.set(leaf->second);
      continue;
    }
    for (const Edge& edge : node->next_edges()) {
      const auto next = at.find(edge.function.get());
      if (next == at.end()) continue;
      if (const auto result = result_at.find(edge); result != result_at.end())
        gradients.set(leaf_of.size() + result->second);
      else
        gradients |= next->second.gradients;
    }
  }
  return at;
}

std::vector<Gradients::Saving> saving_nodes(const std::vector<Node*>& order, const NodeReach& reach,
                                            const std::unordered_map<const Node*, uint32_t>& leaf_of) {
  std::vector<Gradients::Saving> found;
  for (Node* node : order) {
    const Gradients::Saving& mine = reach.at(node);
    const auto covers = [&](const Gradients::Saving& other) {
      return other.tangents.contains(mine.tangents) && other.gradients.contains(mine.gradients);
    };
    if (leaf_of.contains(node) || std::ranges::any_of(found, covers)) continue;
    if (raises_when_released(*node)) found.push_back(mine);
  }
  return found;
}

}  // namespace braze::capture
