// python/compile/drawn_numbers.h: whether a run may take numbers that Python's generators draw as ones that vary.
//
// What is decided by such a number is guarded, so that another one is another way through the code. A run that has
// decided more than a few things since the first one, or a place where several captures have decided something, has
// too many ways: there the graph ends instead.
#pragma once

#include <cstdint>
#include <optional>

#include "python/compile/size_history.h"

namespace braze::python {

class DrawnNumbers {
 public:
  /// \param history  null: nothing varies.
  explicit DrawnNumbers(SizeHistory* history) : history_(history) {}
  DrawnNumbers(const DrawnNumbers&) = delete;
  DrawnNumbers& operator=(const DrawnNumbers&) = delete;
  ~DrawnNumbers() {
    if (has_decided_) history_->note_decided_draws();
  }

  /// Another number may be drawn. \param decisions  of the run so far; nothing: it has no symbols.
  bool may_draw(std::optional<size_t> decisions) {
    constexpr size_t most_decisions = 2;
    if (!history_ || !history_->is_open()) return false;
    history_->note_draws(decisions.has_value());
    if (!history_->has_draws() || !decisions) return false;
    if (!before_) before_ = decisions;
    return *decisions - *before_ <= most_decisions;
  }
  /// \param most  the largest whole number that may have been drawn.
  void note_number(int64_t most) {
    constexpr int64_t few = 16;
    is_of_many_ |= most > few;
  }
  void note_decision() { has_decided_ |= before_.has_value(); }
  /// A number of the run is this one: a float that comes of those that were read, or a whole number.
  void note_float_is_known() {
    if (before_) history_->give_up_draws();
  }
  void note_number_is_known() {
    if (is_of_many_) history_->give_up_draws();
  }

 private:
  SizeHistory* const history_;
  std::optional<size_t> before_;  ///< Decisions when the first one was drawn.
  bool has_decided_ = false;
  bool is_of_many_ = false;  ///< One was drawn that hardly comes a second time.
};

}  // namespace braze::python
