// codegen/x86/emit_index.h: indices to addresses.
#pragma once

#include "codegen/x86/emit_values.h"

namespace braze::codegen {

/// An index taken apart by how its terms differ between lanes.
struct Index {
  llvm::SmallVector<Affine::Term, 4> terms;  ///< Uniform ones and the linear one's lane 0, outermost level first.
  llvm::SmallVector<Affine::Term, 2> varying;
  std::optional<Extent> lane_stride;  ///< Elements from lane to lane through the linear term.
  Extent offset;
  int level = 0;
  bool is_uniform() const { return varying.empty() && !lane_stride; }
  bool is_strided_by(int64_t n) const {
    return varying.empty() && lane_stride && lane_stride->is_constant() && lane_stride->constant == n;
  }
};

/// Address of lane 0 of part 0, less `displacement` elements that fold into the instruction.
struct Address {
  llvm::Value* pointer;
  int64_t displacement;
};

class IndexEmitter : public ValueEmitter {
 protected:
  using ValueEmitter::ValueEmitter;

  Index analyse(const Affine& affine);
  bool flatten(const Affine& affine, const Extent& factor, Affine& out);
  llvm::Value* scaled(const Affine::Term& term, int64_t& displacement);
  llvm::Value* derived(int level, const Extent& factor);
  llvm::Value* index_sum(const Index& index, int64_t& displacement);
  llvm::Value* lane_offsets(const Index& index, unsigned p);
  Address address(BufferId buffer, const Index& index);
  llvm::Value* element(BufferId buffer, const Address& address, int64_t offset);
  llvm::Value* part_pointers(BufferId buffer, const Index& index, const Address& address, unsigned p);
  /// Which lanes of part p count: the level's mask and the predicate; null for all.
  llvm::Value* lane_mask(int level, unsigned p, ValueId predicate);
  void emit_affine(ValueId id, const Affine& affine) override;
};

}  // namespace braze::codegen
