// loops/schedule/gpu/schedule.h: loops for blocks, warps and threads of a GPU.
//
//   points   every thread takes a vector of elements; tiles in shared memory where reads and writes run crosswise
//   rows     reductions along contiguous axes: a row a warp, a block or a cluster of blocks, kept in registers from
//            pass to pass
//   columns  reductions along other axes: a column a thread, or 32 vectors of columns a block whose warps take
//            turns at the rows
//   split    reductions with too few results to fill the machine, in two phases
//
// How such loops run is said in kernel.h. Results of `bind=thread` loops are known to all threads that run them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "loops/schedule/gpu/units.h"
#include "loops/schedule/nest_builder.h"

namespace braze::loops {

class GpuNest final : public NestBuilder {
 public:
  GpuNest(const Group& group, const Facts& facts) : NestBuilder(group, facts), limits_(target_.gpu) {}

 private:
  void build_loops() override;
  /// Rows of a length that is not known are read again: which registers an element is in would not be known.
  int64_t longest_kept() const override {
    return knows_row() ? limits_.most_cluster * limits_.most_threads * limits_.kept : 0;
  }
  Scalar member(const ir::Value* value) override;
  Scalar load_nearby(BufferId buffer, const Affine& offset, const std::vector<Index>& place) override;

  // ---- schedule.cpp
  /// As open_units(), with the unit's number taken apart into `parts`, innermost first; values of level 0 are its
  /// body's.
  std::unique_ptr<Units> open(Size count, bool warps, const std::vector<std::pair<Size, Index*>>& parts);
  void close(Units& units);
  int64_t vector_along(const LoopAxis& axis) const;
  bool divides(int64_t number, Size size) const { return rules().equal(mod(size, number), 0); }
  /// Elements to store, or rows to reduce.
  Size results() const { return nest_.has_lane ? nest_.outer_size() * nest_.lane.size : nest_.outer_size(); }
  bool knows_row() const;  ///< The sizes of what is reduced are numbers.
  /// No size or stride is an expression.
  bool knows_sizes() const;
  bool indices_are_narrow() const;

  // ---- points.cpp
  void build_points();

  // ---- rows.cpp
  void build_rows();
  int64_t blocks_a_row(int64_t length) const;
  void run_pass(int number);
  void place_kept();

  // ---- columns.cpp
  void build_columns();
  int64_t column_vector() const;
  void build_thread_columns();
  void build_block_columns();
  void run_column_pass(int number);
  /// The loops over the lanes of a warp and the columns that each takes at once. Values of level 1 belong to its
  /// body.
  struct Lanes {
    std::unique_ptr<Loop> loop, vector;
    Block body;  ///< Of the inner of them.
    ValueId guard = none;
  };
  std::unique_ptr<Lanes> open_lanes();
  Stmt close_lanes(Lanes& lanes);
  Scalar join_warps(const ir::Node* reduction, std::vector<ValueId>* parts);

  // ---- split.cpp
  void choose_chunks();
  void join_chunks();

  // ---- tile.cpp
  struct Walk;
  void build_tiled(size_t along);
  int64_t tile_vector(const LoopAxis& along) const;
  Loop tile_loop(const LoopAxis& along);
  std::pair<Affine, Affine> open_walk(Walk& walk, const LoopAxis& along, bool fills);
  void close_walk(Walk& walk);

  const GpuLimits& limits_;
  /// While rows are reduced.
  int64_t row_threads_ = 0;  ///< That share a row,
  int64_t row_blocks_ = 1;   ///< in so many blocks.
  int64_t row_vector_ = 1;   ///< Elements that each takes at once.
  /// While columns are reduced by blocks: what each warp found, by reduction.
  struct WarpResults {
    const ir::Node* node;
    std::vector<BufferId> buffers;
  };
  std::vector<WarpResults> warp_results_;
  int64_t warps_ = 0;
  Affine first_column_;
  Affine column_place_;        ///< Of the innermost lane's column in its tile.
  int64_t column_vector_ = 1;  ///< Columns that a lane takes at once.
  /// While a tiled kernel is built.
  struct Tiling {
    ValueId lane_begin = none, along_begin = none;
    ValueId lane = none, along = none, step = none;  ///< Thread, warp and serial loop of the body,
    ValueId part = none;                             ///< and its vector loop, if a thread moves more than one.
    int64_t vector = 1;
    struct Fill {
      ValueId thread = none, warp = none, step = none, part = none;
      Block* body = nullptr;
    } fill;
    struct Copy {
      BufferId from, tile;
      Affine offset;
      int64_t pitch;
    };
    std::vector<Copy> copies;
  };
  Tiling* tiling_ = nullptr;
};

}  // namespace braze::loops
