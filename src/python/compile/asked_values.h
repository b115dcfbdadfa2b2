// python/compile/asked_values.h: numbers, text and lengths that decided something in a segment, and where.
//
// What a run guards by its value may be another one at every call: the words of a sentence, how many boxes are
// kept. Then each call is captured anew, until the limit is reached and nothing is compiled any more. So it is
// known of each such guard which instruction of the segment's frame has asked for the value. Where programs for
// some of the values have served one call each, the graph ends there from then on: that instruction runs natively,
// and what comes before and behind it is replayed whatever the value is. Of calls that are captured whole it is
// known only that values were asked for: where their programs serve one call each, frames are run as chains of
// segments from then on.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "python/guards/guard.h"

namespace braze::python {

/// So many programs that one call each has had use of are enough.
inline constexpr int few_of_one_call = 3;
/// Of whole calls, which have no graph breaks as yet.
inline constexpr int few_whole_calls = 4;

struct AskedValue {
  guards::Guard guard;
  int offset;  ///< Of the instruction, in code units.
};

/// Of one segment.
struct AskedValues {
  std::vector<AskedValue> values;  ///< Of what a call or frame is given.
  /// Which of the objects are one and the same, as in a list of the best states so far.
  std::vector<AskedValue> identities;
  /// What was decided about numbers that vary, with the guards that must hold for it to be asked.
  std::vector<guards::Guard> decisions;
  int decides = -1;  ///< The first instruction that decided something.

  /// Of a call that was captured whole, in the place of an offset: it is not known which instruction asks.
  static constexpr int whole_call = 0;

  /// The first instruction whose answer would be another one in this call; nothing: that is not why the segment is
  /// none for it.
  std::optional<int> first_other(const guards::Call& call) const;
  /// A number or text would be another one in this call, rather than how many items there are: that may stay what
  /// it has come to, as a history of the last few calls does.
  bool is_for_other_scalar(const guards::Call& call) const;
  /// The values that are others in this call, by how the user would write them.
  void add_others(const guards::Call& call, std::set<std::string>& paths) const;
};

/// Of a run.
class ValueLog {
 public:
  explicit ValueLog(const guards::GuardSet& guards) : guards_(guards) {}

  /// The frame is about to run this instruction: what has been guarded and decided since the last one was asked for
  /// by that. \param decisions  how many there were by now.
  /// \param iterates  it asks an iterator for an item.
  void arrive(int offset, size_t decisions, bool iterates = false);
  /// The first instruction that has asked for a value of such a source.
  std::optional<int> first_of(const std::function<bool(const guards::Source*)>& is_such) const;
  /// When all guards are there.
  void finish();
  AskedValues take() && { return std::move(asked_); }

 private:
  const guards::GuardSet& guards_;
  size_t seen_ = 0, decisions_ = 0;
  int offset_ = -1, iterates_at_ = -1, meets_tensors_at_ = -1;
  AskedValues asked_;
};

}  // namespace braze::python
