// loops/schedule/nest_values.h: the values of a kernel, evaluated where they are needed.
#pragma once

#include <utility>
#include <vector>

#include "loops/schedule/nest_plan.h"

namespace braze::loops {

/// Values are evaluated where their deepest axis is defined:
///   level 0  the body of the loop over the outer axes
///   level 1  the body of the lane loop inside it (columns, and points with outer axes)
///   level 2  the body of the loops over reduced axes, anew in every pass
class NestValues : public NestPlan {
 protected:
  using NestPlan::NestPlan;

  // ---- what a kind of target decides
  /// A value of the group where it is asked for now.
  virtual Scalar member(const ir::Value* value);
  /// A load from memory close by, where the element was brought to before; no value if it was not.
  virtual Scalar load_nearby(BufferId buffer, const Affine& offset, const std::vector<Index>& place) { return {}; }
  /// Whether `index op bound` is the same for all lanes that run now: 1 or 0; -1 if it differs, or is not known.
  virtual int known_answer(const Index& index, ir::Op op, Size bound) const { return -1; }

  Scalar read(const ir::Value* value, const Label& label);
  Scalar read_kept(const ir::Value* value, const Label& label);
  Scalar compute_member(const ir::Node* node);
  Scalar elementwise(const ir::Node* node, const std::vector<Scalar>& operands);
  Scalar gathered(const ir::Node* node);
  Scalar padded(const ir::Node* node);
  Scalar scattered(const ir::Node* node);
  Scalar linearised(const ir::Node* reshape);
  Scalar read_at(const ir::Value* value, std::vector<Index> place);
  Scalar load(const Window& window, const std::vector<Index>& place);
  Scalar load_if(Scalar predicate, const Window& window, const std::vector<Index>& place, Scalar otherwise);
  Scalar free_value(const ir::Value* value, const std::vector<Index>& place);
  std::vector<Index> place_of(const Label& label, std::span<const Size> sizes);
  Index index_of(const AxisList& list);
  std::vector<Index> back_through(const ir::Node* view, const std::vector<Index>& place);
  Index whole_number(Scalar value) const;
  Scalar as_value(const Index& index);
  Scalar combine(ir::Op op, Scalar a, Scalar b);
  Scalar constant(DType type, Number number);
  Scalar scalar_parameter(const ir::Node* node);
  Scalar size_value(Size size);
  Affine offset_of(const Window& window, const std::vector<Index>& place, int& level);
  BufferId buffer_of(const ir::Value* base, Access access);
  Builder at(int level);
  Affine place_in_row();
};

}  // namespace braze::loops
