// loops/in_place.h: results stored straight into the graph input that they replace.
//
// An optimizer's step writes all its parameters and moments: stored aside and copied, they cost twice the traffic
// and an arena as large as the model. Where nothing needs the old contents any more once the new ones are stored,
// the kernel writes into the input.
#pragma once

#include <vector>

#include "loops/fusion.h"
#include "loops/schedule/schedule.h"

namespace braze::loops {

/// What of a graph's mutations may be stored in place, as far as the graph and the order of its units tell.
/// It may find out as it runs that it cannot go on.
bool can_fail(const ir::Node& node);

class InPlace {
 public:
  /// `writable`: of each graph input, that it shares memory with no other one.
  InPlace(const ir::Graph& graph, Windows& windows, const std::vector<bool>& writable);
  /// The units in their order: who reads what last, and what can fail when. What has failed must have left every
  /// input as it was, so nothing is written before that.
  void set_units(const std::vector<Unit>& units, const Facts& facts);

  /// The graph input that `result`, computed by unit `unit`, replaces; -1: none, or not in place.
  int64_t input_for(const ir::Value* result, size_t unit) const;
  /// Makes the kernel store `result` where input `over` lies. False, and nothing has changed: it reads other
  /// elements of the input than the one that it stores.
  static bool store(KernelDraft& draft, const ir::Value* result, const ir::Value* over);

 private:
  static constexpr size_t never = ~size_t{0};
  std::vector<int64_t> input_of_;  ///< By value id.
  std::vector<size_t> safe_from_;  ///< By input: the first unit that may write there.
  const ir::Graph& graph_;
};

}  // namespace braze::loops
