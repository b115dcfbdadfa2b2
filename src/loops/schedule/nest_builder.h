// loops/schedule/nest_builder.h: a group as loops, as far as all kinds of targets agree: what is decided before
// (nest_plan.h), the values (nest_values.h), and the passes over the reduced axes, here. The loops are a target's:
// schedule/cpu, schedule/gpu.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "loops/schedule/nest_values.h"

namespace braze::loops {

/// Builds one kernel.
class NestBuilder : public NestValues {
 public:
  KernelDraft build();

 protected:
  using NestValues::NestValues;

  /// The body of the loops over the reduced axes, what it contributes to, and the nodes that these are.
  struct Pass {
    Block body;
    std::vector<Reduction> reductions;
    std::vector<const ir::Node*> nodes;
  };

  // ---- what a kind of target decides
  virtual void build_loops() = 0;                                                   ///< Fills the kernel's body.
  virtual bool streams(const ir::Value* stored, bool full) const { return false; }  ///< Past the cache.
  /// `full`: over the reduced axes too, if there are any.
  virtual void store(const ir::Value* result, Scalar value, bool full);

  Pass evaluate_pass(int number);
  void remember(const Pass& pass, const Loop& done, int level);
  void store_all(int pass, bool rows);
  void store_partials(int level, const Partial& partial, const std::vector<ValueId>& results);
  Index place_in_reduced(const ir::Node* reduction);
  /// Bounds of a loop; begin and end are values, none: 0 and `size`.
  struct Span {
    ValueId begin = none, end = none;
    Size size = 0;
  };
  Span whole_span(size_t depth, Builder builder);
  Stmt wrap(std::unique_ptr<Loop> loop, Block inner, std::vector<Reduction>& reductions);
  void add_partials(Size results);
  /// Takes `whole` apart into indices of the given sizes, innermost first, at level 0.
  void split_index(Affine whole, const std::vector<std::pair<Size, Index*>>& parts);
};

/// The builder for the target of `facts`.
std::unique_ptr<NestBuilder> make_builder(const Group& group, const Facts& facts);

}  // namespace braze::loops
