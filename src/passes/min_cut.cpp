#include "passes/min_cut.h"

#include <algorithm>

namespace braze::passes {

MinCut::MinCut(std::span<const int64_t> costs)
    : vertices_(static_cast<uint32_t>(costs.size())),
      source_(2 * vertices_),
      sink_(2 * vertices_ + 1),
      leaving_(2 * vertices_ + 2) {
  for (uint32_t v = 0; v < vertices_; ++v) add_edge(2 * v, 2 * v + 1, costs[v]);
}

void MinCut::add_edge(uint32_t from, uint32_t to, int64_t capacity) {
  leaving_[from].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  leaving_[to].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

void MinCut::connect(uint32_t from, uint32_t to) {
  add_edge(2 * from + 1, 2 * to, unaffordable);
}
void MinCut::connect_source(uint32_t to) {
  add_edge(source_, 2 * to, unaffordable);
}
void MinCut::connect_sink(uint32_t from) {
  add_edge(2 * from + 1, sink_, unaffordable);
}

bool MinCut::measure_levels() {
  level_.assign(leaving_.size(), -1);
  std::vector<uint32_t> queue{source_};
  level_[source_] = 0;
  for (size_t k = 0; k < queue.size(); ++k)
    for (const uint32_t e : leaving_[queue[k]])
      if (edges_[e].room > 0 && level_[edges_[e].to] < 0) {
        level_[edges_[e].to] = level_[queue[k]] + 1;
        queue.push_back(edges_[e].to);
      }
  return level_[sink_] >= 0;
}

/// One augmenting path of the level graph; walks back where it ends blind. Not recursive: paths are as long as the
/// graph is deep.
int64_t MinCut::push(int64_t wanted) {
  std::vector<uint32_t> path;
  uint32_t at = source_;
  while (at != sink_) {
    bool moved = false;
    for (; next_[at] < leaving_[at].size(); ++next_[at]) {
      const Edge& edge = edges_[leaving_[at][next_[at]]];
      if (edge.room <= 0 || level_[edge.to] != level_[at] + 1) continue;
      path.push_back(leaving_[at][next_[at]]);
      at = edge.to;
      moved = true;
      break;
    }
    if (moved) continue;
    if (path.empty()) return 0;
    at = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[at];
  }
  for (const uint32_t e : path) wanted = std::min(wanted, edges_[e].room);
  for (const uint32_t e : path) {
    edges_[e].room -= wanted;
    edges_[e ^ 1].room += wanted;
  }
  return wanted;
}

std::vector<bool> MinCut::run() {
  while (measure_levels()) {
    next_.assign(leaving_.size(), 0);
    while (push(unaffordable) > 0) {
    }
  }
  // What still reaches the sink lies behind the cut.
  std::vector<bool> behind(leaving_.size());
  std::vector<uint32_t> queue{sink_};
  behind[sink_] = true;
  for (size_t k = 0; k < queue.size(); ++k)
    for (const uint32_t e : leaving_[queue[k]]) {
      const Edge& into = edges_[e ^ 1];  // The edge from there to here.
      const uint32_t from = edges_[e].to;
      if (into.room <= 0 || behind[from]) continue;
      behind[from] = true;
      queue.push_back(from);
    }
  std::vector<bool> cut(vertices_);
  for (uint32_t v = 0; v < vertices_; ++v) cut[v] = !behind[2 * v] && behind[2 * v + 1];
  return cut;
}

}  // namespace braze::passes
