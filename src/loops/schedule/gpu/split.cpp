// loops/schedule/gpu/split.cpp: reductions whose results are too few to keep all multiprocessors busy. Phase 0
// reduces chunks into partial results, in phase 1 a warp joins those of a result. How many chunks there are depends
// on the sizes alone, so the order of summation does too.
#include <algorithm>
#include <utility>

#include "loops/schedule/gpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::OpKind;

/// Chooses into how many chunks the first reduced axis is split. Only where one pass does it all.
void GpuNest::choose_chunks() {
  if (passes_ > 1) return;
  const bool rows = nest_.form == LoopNest::Form::rows;
  const int64_t a_tile = limits_.warp * column_vector_;
  const int64_t columns = nest_.has_lane ? (hint(nest_.lane.size) + a_tile - 1) / a_tile : 1;
  const int64_t blocks = hint(nest_.outer_size()) * (rows ? 1 : columns);
  const int64_t input = hint(nest_.reduced_size()) * (rows ? 1 : a_tile);  // elements of a block
  // Blocks that reduce rows are larger.
  const int64_t wanted = (rows ? 2 : 4) * limits_.multiprocessors / std::max<int64_t>(1, blocks);
  const Size whole = nest_.reduced[0].size;
  const int64_t most = std::min({wanted, input / limits_.least_chunk, hint(whole)});
  if (most <= 1) return;
  const auto length_of = [&](int64_t chunks) {
    const Size length = ceil_div(whole, chunks);
    // A chunk begins with a whole vector.
    const bool vectors = rows && nest_.reduced.size() == 1;
    return vectors ? ceil_div(length, target_.vector_bytes) * target_.vector_bytes : length;
  };
  const int64_t length = hint(length_of(most));
  chunks_ = (hint(whole) + length - 1) / length;
  // Of a size that is not known the last chunks may have nothing.
  chunk_length_ = whole.is_constant() ? Size(length) : length_of(chunks_);
}

void GpuNest::join_chunks() {
  const Size count = results();
  const int64_t chunks = std::exchange(chunks_, 1);
  memo_.clear();
  lane_level_ = 0;
  std::vector<std::pair<Size, Index*>> parts;  // innermost first
  if (nest_.has_lane) parts.push_back({nest_.lane.size, &leaf_value_[nest_.lane.innermost()]});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});
  Index result;
  const auto units = open(count, true, {{count, &result}});
  split_index(result.affine, parts);

  auto lanes = std::make_unique<Loop>();
  lanes->var = kernel_.add_value(DType::i64);
  lanes->end = Extent(limits_.warp);
  lanes->schedule.bind = Schedule::Bind::thread;
  auto steps = std::make_unique<Loop>();
  steps->var = kernel_.add_value(DType::i64);
  steps->begin_value = lanes->var;
  steps->end = Extent(chunks);
  steps->step = limits_.warp;
  Affine index = extents_.scaled(chunks, result.affine);
  index.add(1, steps->var);
  Block body;
  Builder builder(kernel_, body);
  Pass pass;
  for (const Partial& partial : std::exchange(partials_, {})) {
    Reduction reduction;
    reduction.combine = combine_of(partial.node->op);
    for (BufferId buffer : partial.buffers) reduction.yielded.push_back(builder.load(buffer, index));
    pass.reductions.push_back(std::move(reduction));
    pass.nodes.push_back(partial.node);
  }
  Block inner;
  inner.push_back(wrap(std::move(steps), std::move(body), pass.reductions));
  blocks_[0]->push_back(wrap(std::move(lanes), std::move(inner), pass.reductions));
  remember(pass, *blocks_[0]->back().loop, 0);
  store_all(0, true);
  close(*units);
}

}  // namespace braze::loops
