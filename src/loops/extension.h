// loops/extension.h: what may join a kernel, and as which part of its iteration space.
#pragma once

#include "loops/fusion.h"

namespace braze::loops {

/// Adds nodes to a group. Unless every step returned true, the caller rolls the group back or drops it.
class Extension {
 public:
  /// With `propose`, a dimension that no operand computed here fixes runs along the dimension of the same size of
  /// the group's reduction: `x - amax(x)` is then computed row by row, beside the reduction. Legal or not, legal()
  /// tells.
  Extension(Group& group, const Facts& facts, bool propose = false)
      : group_(group), facts_(facts), propose_(propose), before_(group.mark()) {}

  bool add(const ir::Node* node);
  bool legal();

 private:
  /// The group was legal before, and nothing that decided about it has changed.
  bool only_adds_elementwise() const;
  bool added_nodes_fit() const;

  /// Its value runs over all axes or over all that stored rows have.
  bool fits(const ir::Node* node, const AxisList& all, const AxisList& rows) const;
  bool fits();
  AxisList reduced_by(const ir::Node* node, const Label& label) const;
  bool is_internal(const ir::Node* node) const;
  /// But for what a GPU computes of the results alone.
  /// \param rows  The axes of results.
  bool nothing_follows_reductions(const AxisList& rows) const;

  /// The label under which `value` is computed in this group. False: it is not; `bad` if it is, but cannot be read.
  bool member_label(const ir::Value* value, Label& label, bool& bad);
  bool label_of(const ir::Node* node, Label& out);
  bool propose_from_reduction(size_t from_right, Size size, AxisList& out) const;
  bool gather_label(const ir::Node* node, const std::vector<std::pair<bool, Label>>& operands, Label& out);

  Group& group_;
  const Facts& facts_;
  bool propose_;
  const Group::Mark before_;
};

}  // namespace braze::loops
