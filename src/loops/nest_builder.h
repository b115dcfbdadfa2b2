// loops/nest_builder.h: the state of build_kernel. nest.cpp decides loops and passes, read.cpp evaluates values.
#pragma once

#include <vector>

#include "loops/nest.h"
#include "loops/schedule.h"

namespace braze::loops {

Combine combine_of(ir::Op reduction);
/// The next multiple of the f32 that fill a cache line.
inline int64_t whole_lines(int64_t elements, const Target& target) {
  const int64_t line = target.line_elements();
  return (elements + line - 1) / line * line;
}

bool with_index(Combine combine);  ///< Its state carries the place of the extreme beside it.

/// Builds one kernel. Values are evaluated where their deepest axis is defined:
///   level 0  the body of the top-level loop
///   level 1  the body of the lane loop inside it (columns, and points with outer axes)
///   level 2  the body of the loops over reduced axes, anew in every pass
class NestBuilder {
 public:
  NestBuilder(const Group& group, const Facts& facts);
  /// Stores the group's only result in these strides instead of its own.
  void store_as(std::vector<int64_t> strides) { store_strides_ = std::move(strides); }
  KernelDraft build();

 private:
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

  /// Partial results of a reduction split over threads.
  struct Partial {
    const ir::Node* node;
    std::vector<BufferId> buffers;
  };

  // ---- nest.cpp: planning
  void number_leaves();
  void collect_accesses();
  void plan_passes();
  int depth_of(const ir::Value* value);
  void plan_scratch();
  int recompute_cost(const ir::Value* value) const;
  void mark_evaluated(const ir::Value* value, int pass);
  bool is_stored(const ir::Value* value) const;
  std::vector<int64_t> strides_of(const ir::Value* stored) const;
  /// Also over dimensions of size 1, which have no axis.
  bool reduces() const { return !group_.reduced_inputs.empty(); }
  bool runs_over_reduced(const Label& label) const;

  // ---- nest.cpp: loops
  void count_bytes();
  void build_reductions();
  void build_split();
  void build_passes(int first_level);
  void open_outer(Loop& loop);
  void run_pass(int pass);
  void store_all(int pass, bool rows);
  /// Bounds of a loop; begin and end are values, none: 0 and `size`.
  struct Span {
    ValueId begin = none, end = none;
    int64_t size = 0;
  };
  Span whole_span(size_t depth, Builder builder);
  std::unique_ptr<Loop> block_loop(const Span& span, int64_t length, Span& block, Builder builder);
  void emit_reduced_loops(std::vector<Reduction> reductions, Block body, Block& into, const Span* outermost);
  int64_t grain(int64_t elements_an_iteration) const;
  int32_t unroll_for(size_t statements) const;

  // ---- strips.cpp
  void build_strips();
  void run_strip_pass(int pass);
  Scalar strip_member(const ir::Value* value);
  std::vector<BufferId>& strip_buffers(const ir::Value* value, bool& fresh);
  std::unique_ptr<Loop> open_strip(Block& body, int level);
  Affine place_in_strip() const;
  void accumulate(const ir::Node* reduction, bool in_blocks);
  bool adds_in_blocks(const ir::Node* reduction) const;
  ValueId identity(Combine combine, DType type, bool index);
  void store_partials(int level, const Partial& partial, const std::vector<ValueId>& results);

  // ---- points.cpp
  void build_points();
  void build_rows();
  void emit_lanes(Block& into);
  std::vector<int64_t> lane_cuts() const;
  int64_t staged_rows() const;
  void build_staged(int64_t rows);
  size_t blocked_axis() const;
  void build_blocked(size_t across);

  // ---- tile.cpp
  size_t transposed_axis() const;
  void build_tiled(size_t along);
  Scalar load_from_tile(BufferId buffer, const Affine& offset);
  ValueId present(ValueId valid, int64_t all);
  bool only_copies() const;

  // ---- read.cpp
  Scalar read(const ir::Value* value, const Label& label);
  Affine place_in_row() const;
  Scalar member(const ir::Value* value);
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
  std::vector<Index> place_of(const Label& label, std::span<const int64_t> sizes);
  Index index_of(const AxisList& list);
  std::vector<Index> back_through(const ir::Node* view, const std::vector<Index>& place);
  Index whole_number(Scalar value) const;
  Scalar as_value(const Index& index);
  Scalar combine(ir::Op op, Scalar a, Scalar b);
  Scalar constant(DType type, Number number);
  Scalar scalar_parameter(const ir::Node* node);
  Affine offset_of(const Window& window, const std::vector<Index>& place, int& level) const;
  BufferId buffer_of(const ir::Value* base, Access access);
  Builder at(int level);

  const Group& group_;
  const Facts& facts_;
  const Target& target_;
  const CpuLimits& limits_;
  KernelDraft draft_;
  Kernel& kernel_;
  std::vector<int64_t> store_strides_;
  Leaves leaves_;
  std::vector<AccessPattern> accesses_;
  LoopNest nest_;
  AxisList reduced_;
  int lane_level_ = 0;  ///< Level whose body holds the loops over reduced axes.
  int64_t work_ = 1;    ///< Rough number of instructions that a vector of elements takes.

  std::vector<std::pair<const ir::Value*, int>> depths_;
  std::vector<std::pair<const ir::Value*, int>> first_pass_;  ///< In which pass a value is first evaluated.
  struct Scratch {
    const ir::Value* value;
    BufferId buffer = none;
    bool filled = false;
  };
  std::vector<Scratch> scratch_;
  int passes_ = 1;

  std::vector<Block*> blocks_ = {nullptr, nullptr, nullptr};
  std::vector<Memo> memo_;
  std::vector<Index> leaf_value_;  ///< Of each loop's innermost leaf: the loop's variable.
  std::vector<const ir::Node*> scalar_nodes_;
  std::vector<Partial> partials_;
  /// While strips are built: values of the lanes alone, kept in the nearest cache.
  struct Strip {
    int64_t length = 0;                ///< Lanes of one strip.
    int64_t count = 1;                 ///< Strips.
    Index number;                      ///< Which of them.
    ValueId begin = none, end = none;  ///< Its lanes.
    Block* prologue = nullptr;         ///< Body of the lane loop before a pass; null outside of passes.
    Index prologue_lane;               ///< Its lane.
    struct Kept {
      const ir::Value* value;
      std::vector<BufferId> buffers;
    };
    std::vector<Kept> kept;
    std::vector<std::pair<BufferId, BufferId>> blocks;  ///< Accumulator of all rows, and of a block of them.
    int level = 0;  ///< 2 in a pass over the reduced axes, 1 in a loop over the lanes alone.
  };
  Strip* strip_ = nullptr;
  /// While a tiled kernel is built: the loops over a tile and the transposed copies that its loads read from.
  struct Tiling {
    int64_t lanes = 0, length = 0;  ///< Elements along the lanes and along the other side.
    ValueId lane_begin = none, along_begin = none, lane = none, along = none;
    ValueId lane_valid = none, along_valid = none;  ///< Present in this tile; none: all.
    Block* fill = nullptr;                          ///< Where tiles are filled, before the loops over a tile.
    struct Copy {
      BufferId from, tile;
      Affine offset;
      int64_t pitch;
    };
    std::vector<Copy> copies;
  };
  Tiling* tiling_ = nullptr;
  /// While lanes run in several loops, one after another: those of the present one.
  struct Lanes {
    int64_t begin = 0, end = 0;
    ValueId variable = none;
  };
  const Lanes* lanes_ = nullptr;
  /// While rows are put together in the nearest cache, before they are stored: where, and at which of its elements.
  struct Stage {
    BufferId buffer = none;
    Affine row;
  };
  const Stage* stage_ = nullptr;
  int64_t chunks_ = 1;  ///< Into how many parts the first reduced loop is split.
  Index chunk_;         ///< Which of them.
};

}  // namespace braze::loops
