// loops/schedule/update_builder.h: kernels that write at places read from index tensors.
//
// Updates that may meet in one element differ only in the indexed dimensions. Where the order in which they meet
// counts, those are serial loops; all other dimensions are the target's to share out.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "loops/schedule/extents.h"
#include "loops/schedule/schedule.h"

namespace braze::loops {

class UpdateBuilder {
 public:
  UpdateBuilder(const ir::Node* node, const Facts& facts);
  virtual ~UpdateBuilder() = default;
  KernelDraft build();
  /// Only finds out whether all places exist.
  KernelDraft build_checks();

 protected:
  /// Sets the places of all dimensions of the updates, and calls emit_update() with the innermost block.
  virtual void build_loops() = 0;
  void emit_update(Block& block, std::optional<AtomicOp> atomic = {});
  bool collides(size_t k) const { return k >= first_ && k < first_ + index_rank_; }

  const ir::Node& node_;
  const Facts& facts_;
  const ir::Value* result_;
  const Sizes to_;              ///< Strides of the result.
  Sizes sizes_;                 ///< Of the updates.
  size_t first_ = 0;            ///< First indexed dimension.
  size_t indexed_ = 1;          ///< Dimensions of the result that are indexed.
  size_t index_rank_ = 1;       ///< Dimensions of the updates in their place.
  std::vector<Affine> places_;  ///< Index of each dimension of the updates.
  KernelDraft draft_{std::make_unique<Kernel>(), {}, {}, 0, 0};
  Kernel& kernel_ = *draft_.kernel;
  Extents extents_{kernel_, draft_.symbols, facts_.rules()};
  BufferId to_buffer_ = none, source_ = none;
  std::vector<BufferId> indices_;
  bool only_checks_ = false;

 private:
  void add_indices();
  BufferId add_buffer(const ir::Value* base, Access access);
  Affine read_place(const Window& window, size_t to);
  ValueId checked_index(Builder& builder, size_t which);
};

std::unique_ptr<UpdateBuilder> make_cpu_update(const ir::Node* node, const Facts& facts);
std::unique_ptr<UpdateBuilder> make_gpu_update(const ir::Node* node, const Facts& facts);

}  // namespace braze::loops
