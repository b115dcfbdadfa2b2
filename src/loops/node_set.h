// loops/node_set.h: which nodes are of a group, for those who ask often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace braze::loops {

/// A bit for each node from the first to the last one, by Node::id.
class NodeSet {
 public:
  explicit NodeSet(std::span<const ir::Node* const> nodes) {
    if (nodes.empty()) return;
    const auto [first, last] = std::ranges::minmax(nodes, {}, &ir::Node::id);
    first_ = first->id;
    marked_.resize(last->id - first_ + 1);
    for (const ir::Node* node : nodes) marked_[node->id - first_] = true;
  }
  bool contains(const ir::Node* node) const {
    const uint32_t place = node->id - first_;  // Wraps for those before the first one.
    return place < marked_.size() && marked_[place];
  }

 private:
  uint32_t first_ = 0;
  std::vector<bool> marked_;
};

}  // namespace braze::loops
