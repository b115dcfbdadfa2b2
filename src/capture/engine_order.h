// capture/engine_order.h: in which order PyTorch's engine runs the nodes that are ready.
//
// It keeps them in a heap by sequence number, without a tie-breaker, and all nodes that accumulate into leaves have
// the same one. So which leaf gets its gradient first, and whose hooks run first, follows from the heap alone. The
// same heap is kept here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace braze::capture {

/// A node that is ready, in the engine's heap.
template <typename Node>
struct ReadyNode {
  uint64_t sequence_number;
  Node node;
  bool operator<(const ReadyNode& other) const { return sequence_number < other.sequence_number; }
};

template <typename Node>
using ReadyNodes = std::priority_queue<ReadyNode<Node>>;

/// Of `count` leaves that one node makes ready, and behind them of `others` that are none: the k-th leaf that runs
/// was the n-th to come in.
inline std::vector<size_t> run_order_of_leaves(size_t count, size_t others) {
  ReadyNodes<size_t> ready;
  for (size_t k = 0; k < count; ++k) ready.push({UINT64_MAX, k});
  for (size_t k = 0; k < others; ++k) ready.push({0, count + k});
  std::vector<size_t> order;
  for (; order.size() < count; ready.pop()) order.push_back(ready.top().node);
  return order;
}

}  // namespace braze::capture
