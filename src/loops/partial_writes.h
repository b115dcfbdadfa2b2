// loops/partial_writes.h: writes into a part of a graph input, in that input's memory.
//
// A cache of keys and values lives on between calls, and each call writes a few rows of it. Stored aside and copied
// back, such a write costs as much as the whole cache:
//   before                                    after
//   launch @slice_scatter(#0, #1, #2:temp)    launch @slice_scatter(#1, #2:mutated)    the rows of #1
//   mutate 0, #2                              mutate 0, #2                            is in place
// What is written is the value of a mutation: `slice_scatter`s and updates (scatter, index_put) one on another,
// down to the input, and what they put into it may be such a chain itself, down to the part that it goes into.
//
// Where nobody else reads the contents from before, it does not matter when the write takes place, as long as what
// eager computes before it, and could fail, is computed before it. (What fails after it leaves the input written,
// as in eager; when the call then runs natively, the write is done again.) Where they are read, as by `c[i] += x`,
// the write comes after all who read them, and after all that can fail.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "loops/fusion.h"

namespace braze::loops {

class PartialWrites {
 public:
  /// A value that lies in an input's memory.
  struct Place {
    uint32_t input = 0;                 ///< Number of the graph input.
    bool is_whole = false;              ///< It is what all of the input becomes.
    Size offset = 0;                    ///< Elements from the input's first.
    bool replaces_read = false;         ///< Somebody reads what was there before.
    const ir::Node* part_of = nullptr;  ///< The write that would put it where it lies; may be null.
  };

  /// Finds them, and sets in `layouts` the strides of what lies in an input.
  /// \param writable  of each graph input, that it shares memory with no other one.
  /// \param refused  Of each graph input, that misordered() named it; may be empty.
  PartialWrites(const ir::Graph& graph, Layouts& layouts, const Targets& targets, const std::vector<bool>& writable,
                const std::vector<bool>& refused);

  /// Where the result of a base value lies; null: in memory of its own.
  const Place* find(const ir::Value* base) const;
  const std::unordered_map<const ir::Value*, Place>& places() const { return places_; }
  /// The graph inputs that would be written too early, were the units run in their order.
  std::vector<uint32_t> misordered(const ir::Graph& graph, const Windows& windows,
                                   const std::vector<Unit>& units) const;

 private:
  std::unordered_map<const ir::Value*, Place> places_;
};

}  // namespace braze::loops
