// loops/unit_order.h: which kernels need what others compute, while fusion still joins them.
//
// Only direct needs are kept, and a level with each unit that is higher than those of all that it needs: the
// transitive closure would grow with the square of the graph. A path is searched for between the levels of its
// ends only, and no further than some thousand steps; what is not found out by then counts as a path, so that
// fusing takes time in proportion to the graph and is never wrong.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braze::loops {

class UnitOrder {
 public:
  using Units = std::span<const uint32_t>;

  /// A new unit, numbered from 0 on, that needs `reads`.
  uint32_t add(Units reads);
  /// The newest unit needs `other` too.
  void need(uint32_t unit, uint32_t other) { connect(unit, other); }

  /// No unit outside of `members` lies on a path from one of them to another, or to something that reads `reads`.
  bool can_merge(Units members, Units reads) const;
  /// The first of `members` takes the others in and needs `reads` as well. False, and nothing has changed: too much
  /// would have to move. \pre can_merge()
  bool merge(Units members, Units reads);

  /// \pre both stand for themselves.
  bool needs_directly(uint32_t unit, uint32_t other) const;
  bool alive(uint32_t unit) const { return merged_into_[unit] == unit; }
  /// All units that stand for themselves, what is needed first; otherwise by `position`, lowest first.
  std::vector<uint32_t> in_order(std::span<const uint32_t> position) const;

 private:
  uint32_t find(uint32_t unit) const;
  void connect(uint32_t unit, uint32_t other);
  /// Of all in `group` to `level`, and of their users to more.
  bool raise(Units group, uint32_t level);

  std::vector<std::vector<uint32_t>> needs_, users_;  ///< As they were when added: find() tells who it is now.
  std::vector<uint32_t> level_;
  mutable std::vector<uint32_t> merged_into_;  ///< Itself: it stands for itself.
  mutable std::vector<uint32_t> seen_;         ///< The last search that came by.
  mutable uint32_t search_ = 0;
};

}  // namespace braze::loops
