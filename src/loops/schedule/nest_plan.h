// loops/schedule/nest_plan.h: what is decided of a kernel before its loops: what is stored, which pass over the
// reduced axes computes what, what is kept between passes (nest_plan.cpp), and how memory is walked through
// (accesses.cpp).
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loops/node_set.h"
#include "loops/schedule/extents.h"
#include "loops/schedule/loop_nest.h"
#include "loops/schedule/schedule.h"
#include "loops/schedule/statements.h"

namespace braze::loops {

Combine combine_of(ir::Op reduction);
bool with_index(Combine combine);  ///< Its state carries the place of the extreme beside it.

/// The state of building one kernel, and its plan. On top of it are its values (nest_values.h) and the passes that
/// loops are made of (nest_builder.h).
class NestPlan {
 public:
  NestPlan(const Group& group, const Facts& facts);
  virtual ~NestPlan() = default;
  /// Stores the group's only result in these strides instead of its own.
  void store_as(Sizes strides) { store_strides_ = std::move(strides); }
  /// Once it is built: what more than one pass reads from memory. A builder that is told to keep it reads it once.
  std::vector<std::pair<const ir::Value*, Label>> read_again() const;
  void keep(const std::vector<std::pair<const ir::Value*, Label>>& loads);

 protected:
  /// A scalar of the kernel and the innermost level that it depends on.
  struct Scalar {
    ValueId id = none;
    int level = 0;
  };
  /// An index along one dimension, as an affine sum over loop variables and i64 values.
  struct Index {
    Affine affine;
    int level = 0;
  };
  struct Memo {
    const ir::Value* value;
    std::vector<Index> place;  ///< Empty for what is computed at its own label.
    Scalar scalar;
  };
  /// Partial results of a reduction that is split.
  struct Partial {
    const ir::Node* node;
    std::vector<BufferId> buffers;
  };
  /// A value of the reduced axes that one pass computes for those after it.
  struct Kept {
    const ir::Value* value;
    BufferId buffer = none;
    bool filled = false;
    int pass = 0;      ///< That filled it.
    Label label = {};  ///< Of a load: under which it is read; else empty.
  };

  virtual int64_t longest_kept() const = 0;  ///< Elements of a row that can be kept between passes.

  void number_leaves();
  void collect_accesses();
  void add_access(const Label& label, std::span<const Size> sizes, std::span<const Size> strides,
                  AccessPattern access);
  void keep_apart(const Label& label);
  void add_read(const ir::Value* value, const Label& label);
  void add_reduced(const ir::Node* node);
  void add_gathered(const ir::Node* node, const Label& label);
  void add_moved(const ir::Node* node, const Label& label);
  void count_bytes();
  void plan_passes();
  int depth_of(const ir::Value* value);
  void plan_kept();
  int64_t recompute_cost(const ir::Value* value) const;
  void mark_evaluated(const ir::Value* value, int pass);
  bool is_stored(const ir::Value* value) const;
  Sizes strides_of(const ir::Value* stored) const;
  /// Also over dimensions of size 1, which have no axis.
  bool reduces() const { return !group_.reduced_inputs.empty(); }
  bool runs_over_reduced(const Label& label) const;
  const SizeRules& rules() const { return facts_.rules(); }
  int64_t hint(Size size) const { return rules().hint(size); }
  void number_reduced();
  size_t crosswise_axis(int64_t least_side) const;

  const Group& group_;
  const NodeSet inside_;  ///< The group's nodes.
  const Facts& facts_;
  const Target& target_;
  KernelDraft draft_;
  Kernel& kernel_;
  Extents extents_;
  Sizes store_strides_;
  Leaves leaves_;
  std::vector<AccessPattern> accesses_;
  LoopNest nest_;
  AxisList reduced_;
  int lane_level_ = 0;  ///< Level whose body holds the loops over reduced axes.
  int64_t work_ = 1;    ///< Rough number of instructions that a vector of elements takes.

  std::vector<std::pair<const ir::Value*, int>> depths_;
  std::vector<std::pair<const ir::Value*, int>> first_pass_;  ///< In which pass a value is first evaluated.
  std::vector<Kept> kept_;
  struct Read {
    const ir::Value* value;
    Label label;
    int pass;
  };
  std::vector<Read> reads_;  ///< From memory, over the reduced axes, each pass once.
  int pass_ = 0;             ///< That is evaluated now.
  int passes_ = 1;

  std::vector<Block*> blocks_ = {nullptr, nullptr, nullptr};
  std::vector<Memo> memo_;
  std::vector<Index> leaf_value_;  ///< Of each loop's innermost leaf: the loop's variable.
  std::vector<const ir::Node*> scalar_nodes_;
  std::vector<Partial> partials_;
  int64_t chunks_ = 1;     ///< Into how many parts the first reduced loop is split.
  Size chunk_length_ = 0;  ///< How long each is, but for the last.
  Index chunk_;            ///< Which of them.
};

}  // namespace braze::loops
