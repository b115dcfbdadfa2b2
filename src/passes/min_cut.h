// passes/min_cut.h: the cheapest set of vertices whose removal separates a source from a sink.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace braze::passes {

/// Of a cost that no cut may have.
inline constexpr int64_t unaffordable = int64_t{1} << 60;

/// A directed graph whose vertices cost something to cut. Dinic's algorithm on vertices split in two.
class MinCut {
 public:
  explicit MinCut(std::span<const int64_t> costs);
  void connect(uint32_t from, uint32_t to);
  void connect_source(uint32_t to);
  void connect_sink(uint32_t from);

  /// The vertices of a cheapest cut; of several such, of the one nearest to the sink.
  std::vector<bool> run();

 private:
  struct Edge {
    uint32_t to;
    int64_t room;
  };
  void add_edge(uint32_t from, uint32_t to, int64_t capacity);
  bool measure_levels();
  int64_t push(int64_t wanted);

  uint32_t vertices_, source_, sink_;
  std::vector<Edge> edges_;  ///< Each followed by its reverse.
  std::vector<std::vector<uint32_t>> leaving_;
  std::vector<int32_t> level_;
  std::vector<uint32_t> next_;
};

}  // namespace braze::passes
