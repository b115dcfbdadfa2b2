// loops/schedule/cpu/update.cpp: updates in eager's order.
//
// Updates that may meet in one element differ only in the indexed dimensions. Those are serial loops, so that such
// updates happen in row-major order, as in eager; all other dimensions run in parallel and over lanes.
//
//   scatter %base, %source, %index, dim=0      for %block in 0..columns step 64 parallel
//                                                for %row in 0..rows
//                                                  for %column in %block..min(%block + 64, columns) vector
#include "loops/schedule/update_builder.h"

namespace braze::loops {

using ir::Op;

namespace {

class CpuUpdate final : public UpdateBuilder {
 public:
  using UpdateBuilder::UpdateBuilder;

 private:
  void set_place(size_t k, ValueId variable) {
    places_[k] = {};
    places_[k].add(1, variable);
  }

  void build_loops() override {
    Block* block = &kernel_.body;
    const size_t rank = sizes_.size();
    const bool lanes = rank > 0 && !collides(rank - 1);
    bool top = true;
    auto open_to = [&](Extent end, Schedule schedule) -> Loop& {
      schedule.parallel = top;
      Loop& loop = Builder(kernel_, *block).loop(0, end, schedule);
      block = &loop.body;
      top = false;
      return loop;
    };
    const auto open = [&](Size size, Schedule schedule) -> Loop& { return open_to(extents_.of(size), schedule); };
    for (size_t k = 0; k + (lanes ? 1 : 0) < rank; ++k)
      if (!collides(k)) set_place(k, open(sizes_[k], {}).var);
    // Columns that a thread takes at once: whole lines of every type.
    const int64_t lane_block = facts_.target(&node_).cache_line;
    ValueId begin = none, end = none;
    if (top && lanes && facts_.rules().hint(sizes_.back()) > lane_block &&
        facts_.elements(node_.operands[1]) >= facts_.target(&node_).cpu.thread_work) {
      const Size lane_count = sizes_.back();
      Loop& blocks =
          open_to(lane_count.is_constant() ? extents_.of(lane_count)
                                           : extents_.multiple(lane_block, ceil_div(lane_count, lane_block)),
                  {});
      blocks.step = lane_block;
      begin = blocks.var;
      Builder builder(kernel_, *block);
      Affine next;
      next.add(1, begin);
      next.offset = Extent(lane_block);
      const ValueId limit = extents_.value(builder, sizes_.back());
      end = builder.compute(Op::minimum, {builder.affine(next), limit});
    }
    if (top) open(1, {});
    for (size_t k = 0; k < rank; ++k)
      if (collides(k)) set_place(k, open(sizes_[k], {}).var);
    if (lanes) {
      Schedule schedule;
      schedule.vector = true;
      Loop& loop = open(sizes_.back(), schedule);
      loop.begin_value = begin;
      loop.end_value = end;
      set_place(rank - 1, loop.var);
    }
    emit_update(*block);
  }
};

}  // namespace

std::unique_ptr<UpdateBuilder> make_cpu_update(const ir::Node* node, const Facts& facts) {
  return std::make_unique<CpuUpdate>(node, facts);
}

}  // namespace braze::loops
