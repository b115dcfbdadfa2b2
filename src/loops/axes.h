// loops/axes.h: the iteration space of a fused kernel, found by unification.
//
// Every value computed in a kernel has a *label*: for each of its dimensions the list of axes (outermost first)
// that the dimension runs over; a dimension of size 1 runs over none. Elementwise ops unify the labels of their
// operands dimension by dimension, splitting an axis where shapes factor differently:
//
//   %x: f32[1024,768]       label [a][b]
//   reshape to [4,256,768]  label [a0][a1][b]     a split into 4 x 256
//   permute, expand, reshape only rearrange a label: they cost nothing inside a kernel.
//
// Unification fails where a value would have to run over the same axis twice (x + x.T) or where sizes do not
// factor. Sizes that are expressions factor where that is proved: n*12*64 into n, 12 and 64.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "loops/sizes.h"

namespace braze::loops {

using AxisId = uint32_t;
using AxisList = std::vector<AxisId>;
using Label = std::vector<AxisList>;  ///< One list a dimension.

/// The axes of one kernel. Cheap to copy: fusion tries on a copy and keeps it if it worked.
class AxisSpace {
 public:
  explicit AxisSpace(const SizeRules& rules = {}) : rules_(rules) {}
  AxisId fresh(Size size);
  Label fresh_label(std::span<const Size> sizes);
  Size size(AxisId axis) const { return axes_[axis].size; }
  size_t count() const { return axes_.size(); }

  /// The list in terms of axes that are neither split nor merged away.
  AxisList leaves(const AxisList& list) const;
  Label leaves(const Label& label) const;
  /// All leaves of a label, sorted; with duplicates if the label runs over an axis twice.
  AxisList axes_of(const Label& label) const;

  /// Makes two lists of equal product run together. False: not possible (the space is then to be thrown away).
  bool unify(const AxisList& a, const AxisList& b);
  /// Unifies right-aligned labels, skipping dimensions where either side is broadcast (size 1).
  bool unify_broadcast(const Label& a, const Label& b);

  /// The label of a view's result, given that of its operand. False for slice and flip, which show other elements
  /// at the same place, and for a reshape whose sizes do not factor.
  bool through_view(const ir::Node* view, const Label& operand, Label& result);

  /// A state to come back to. Changes since then can be undone, in time proportional to them.
  struct Mark {
    size_t axes, changes;
  };
  Mark mark() const { return {axes_.size(), changed_.size()}; }
  void roll_back(const Mark& mark);
  /// No axis has been added, split or merged since.
  bool stands_since(const Mark& mark) const { return mark.axes == axes_.size() && mark.changes == changed_.size(); }

  /// Takes over another space; its axis k becomes k + the returned offset.
  uint32_t append(const AxisSpace& other);

 private:
  struct Axis {
    Size size;
    std::vector<AxisId> parts;  ///< Non-empty: split into (or, with one part, merged into) these.
  };
  void collect(AxisId axis, AxisList& out) const;
  bool regroup(const AxisList& flat, std::span<const Size> sizes, Label& result);
  std::optional<Size> quotient(Size whole, Size part) const;
  /// Splits or merges a leaf.
  void replace(AxisId leaf, std::vector<AxisId> parts);
  SizeRules rules_;
  std::vector<Axis> axes_;
  std::vector<AxisId> changed_;  ///< That are no leaves any more, in order.
};

Label shifted(const Label& label, uint32_t offset);

}  // namespace braze::loops
