// loops/schedule/nest_builder.h: a group as loops, as far as all kinds of targets agree: what is stored, which pass
// over the reduced axes computes what (nest_builder.cpp), how memory is walked through (accesses.cpp), and the
// values themselves (read.cpp). The loops are a target's: schedule/cpu.
#pragma once

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "loops/schedule/extents.h"
#include "loops/schedule/loop_nest.h"
#include "loops/schedule/schedule.h"
#include "loops/schedule/statements.h"

namespace braze::loops {

Combine combine_of(ir::Op reduction);
bool with_index(Combine combine);  ///< Its state carries the place of the extreme beside it.

/// Builds one kernel. Values are evaluated where their deepest axis is defined:
///   level 0  the body of the loop over the outer axes
///   level 1  the body of the lane loop inside it (columns, and points with outer axes)
///   level 2  the body of the loops over reduced axes, anew in every pass
class NestBuilder {
 public:
  NestBuilder(const Group& group, const Facts& facts);
  virtual ~NestBuilder() = default;
  /// Stores the group's only result in these strides instead of its own.
  void store_as(Sizes strides) { store_strides_ = std::move(strides); }
  KernelDraft build();
  /// After build(): what more than one pass reads from memory. A builder that is told to keep it reads it once.
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
  /// The body of the loops over the reduced axes, what it contributes to, and the nodes that these are.
  struct Pass {
    Block body;
    std::vector<Reduction> reductions;
    std::vector<const ir::Node*> nodes;
  };

  // ---- what a kind of target decides
  virtual void build_loops() = 0;            ///< Fills the kernel's body.
  virtual int64_t longest_kept() const = 0;  ///< Elements of a row that can be kept between passes.
  virtual bool streams(const ir::Value* stored, bool full) const { return false; }  ///< Past the cache.
  /// `full`: over the reduced axes too, if there are any.
  virtual void store(const ir::Value* result, Scalar value, bool full);
  /// A value of the group where it is asked for now.
  virtual Scalar member(const ir::Value* value);
  /// A load from memory close by, where the element was brought to before; no value if it was not.
  virtual Scalar load_nearby(BufferId buffer, const Affine& offset, const std::vector<Index>& place) { return {}; }
  /// Whether `index op bound` is the same for all lanes that run now: 1 or 0; -1 if it differs, or is not known.
  virtual int known_answer(const Index& index, ir::Op op, Size bound) const { return -1; }

  // ---- planning
  void number_leaves();
  void collect_accesses();
  void count_bytes();
  void plan_passes();
  int depth_of(const ir::Value* value);
  void plan_kept();
  int recompute_cost(const ir::Value* value) const;
  void mark_evaluated(const ir::Value* value, int pass);
  bool is_kept(const ir::Value* value) const;
  bool is_stored(const ir::Value* value) const;
  Sizes strides_of(const ir::Value* stored) const;
  /// Also over dimensions of size 1, which have no axis.
  bool reduces() const { return !group_.reduced_inputs.empty(); }
  bool runs_over_reduced(const Label& label) const;
  const SizeRules& rules() const { return facts_.rules(); }
  int64_t hint(Size size) const { return rules().hint(size); }

  // ---- passes
  void number_reduced();
  Pass evaluate_pass(int number);
  void remember(const Pass& pass, const Loop& done, int level);
  void store_all(int pass, bool rows);
  void store_partials(int level, const Partial& partial, const std::vector<ValueId>& results);
  Index place_in_reduced(const ir::Node* reduction);
  Affine place_in_row();
  /// Bounds of a loop; begin and end are values, none: 0 and `size`.
  struct Span {
    ValueId begin = none, end = none;
    Size size = 0;
  };
  Span whole_span(size_t depth, Builder builder);
  Stmt wrap(std::unique_ptr<Loop> loop, Block inner, std::vector<Reduction>& reductions);
  void add_partials(Size results);
  size_t crosswise_axis(int64_t least_side) const;
  /// Takes `whole` apart into indices of the given sizes, innermost first, at level 0.
  void split_index(Affine whole, const std::vector<std::pair<Size, Index*>>& parts);

  // ---- values
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

  const Group& group_;
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

/// The builder for the target of `facts`.
std::unique_ptr<NestBuilder> make_builder(const Group& group, const Facts& facts);

}  // namespace braze::loops
