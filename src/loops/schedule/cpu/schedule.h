// loops/schedule/cpu/schedule.h: loops for threads and vectors of a CPU.
//
//   points   a loop over rows, in it one over lanes, or one flat loop; tiles where reads and writes run crosswise
//   rows     reductions along contiguous axes, and along few rows of columns
//   columns  reductions along other axes: strips of columns, accumulated in the nearest cache
//   split    few results of much input, in two phases
#pragma once

#include <memory>
#include <vector>

#include "loops/schedule/nest_builder.h"

namespace braze::loops {

/// The next multiple of the f32 that fill a cache line.
inline int64_t whole_lines(int64_t elements, const Target& target) {
  const int64_t line = target.line_elements();
  return (elements + line - 1) / line * line;
}

class CpuNest final : public NestBuilder {
 public:
  CpuNest(const Group& group, const Facts& facts) : NestBuilder(group, facts), limits_(target_.cpu) {}

 private:
  void build_loops() override;
  int64_t longest_kept() const override;
  bool streams(const ir::Value* stored, bool full) const override;
  void store(const ir::Value* result, Scalar value, bool full) override;
  Scalar member(const ir::Value* value) override;
  Scalar load_nearby(BufferId buffer, const Affine& offset, const std::vector<Index>& place) override;
  int known_answer(const Index& index, ir::Op op, Size bound) const override;

  // ---- schedule.cpp
  bool in_strips() const;
  void open_outer(Loop& loop);
  int64_t grain(int64_t elements_an_iteration) const;
  int32_t unroll_for(size_t statements) const;

  // ---- rows.cpp, split.cpp
  void build_reductions();
  void build_split();
  void build_passes(int first_level);
  void run_pass(int number);
  std::unique_ptr<Loop> block_loop(const Span& span, int64_t length, Span& block, Builder builder);
  void emit_reduced_loops(std::vector<Reduction> reductions, Block body, Block& into, const Span* outermost);

  // ---- columns.cpp
  void build_strips();
  void run_strip_pass(int number);
  Scalar strip_member(const ir::Value* value);
  std::vector<BufferId>& strip_buffers(const ir::Value* value, bool& fresh);
  std::unique_ptr<Loop> open_strip(Block& body, int level);
  Affine place_in_strip();
  void accumulate(const ir::Node* reduction, bool in_blocks);
  bool adds_in_blocks(const ir::Node* reduction) const;
  ValueId identity(Combine combine, DType type, bool index);

  // ---- points.cpp
  void build_points();
  void build_rows();
  void emit_lanes(Block& into);
  std::vector<Size> lane_cuts() const;
  int64_t staged_rows() const;
  void build_staged(int64_t rows);
  size_t blocked_axis() const;
  void build_blocked(size_t across);

  // ---- tile.cpp
  void build_tiled(size_t along);
  int64_t tile_length() const;
  ValueId tile_end(Builder& builder, ValueId begin, Size size, int64_t tile, ValueId& valid);
  std::unique_ptr<Loop> side_loop(Size size, ValueId begin, ValueId end, Builder& builder);
  Scalar load_from_tile(BufferId buffer, const Affine& offset);
  ValueId present(ValueId valid, int64_t all);

  const CpuLimits& limits_;
  /// While strips are built: values of the lanes alone, kept in the nearest cache.
  struct Strip {
    Size length = 0;            ///< Lanes of one strip,
    int64_t room = 0;           ///< and at most.
    Size count = 1;             ///< Strips.
    Index number;               ///< Which of them.
    ValueId begin = none;       ///< Its first lane; none: there is one strip.
    ValueId end = none;         ///< Behind its last lane; none: all strips have `length`.
    Block* prologue = nullptr;  ///< Body of the lane loop before a pass; null outside of passes.
    Index prologue_lane;        ///< Its lane.
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
      Extent pitch;
    };
    std::vector<Copy> copies;
  };
  Tiling* tiling_ = nullptr;
  /// While lanes run in several loops, one after another: those of the present one.
  struct Lanes {
    Size begin = 0, end = 0;
    ValueId variable = none;
  };
  const Lanes* lanes_ = nullptr;
  /// While rows are put together in the nearest cache, before they are stored: where, and at which of its elements.
  struct Stage {
    BufferId buffer = none;
    Affine row;
  };
  const Stage* stage_ = nullptr;
};

}  // namespace braze::loops
