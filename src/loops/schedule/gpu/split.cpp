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
  const int64_t columns = nest_.has_lane ? (nest_.lane.size.constant() + a_tile - 1) / a_tile : 1;
  const int64_t blocks = nest_.outer_size().constant() * (rows ? 1 : columns);
  const int64_t input = nest_.reduced_size().constant() * (rows ? 1 : a_tile);  // elements of a block
  // Blocks that reduce rows are larger.
  const int64_t wanted = (rows ? 2 : 4) * limits_.multiprocessors / std::max<int64_t>(1, blocks);
  const int64_t most = std::min({wanted, input / limits_.least_chunk, nest_.reduced[0].size.constant()});
  if (most <= 1) return;
  int64_t length = (nest_.reduced[0].size.constant() + most - 1) / most;
  // A chunk begins with a whole vector.
  if (rows && nest_.reduced.size() == 1)
    length = (length + target_.vector_bytes - 1) / target_.vector_bytes * target_.vector_bytes;
  chunks_ = (nest_.reduced[0].size.constant() + length - 1) / length;
  chunk_length_ = length;
}

void GpuNest::join_chunks() {
  const int64_t results = nest_.outer_size().constant() * (nest_.has_lane ? nest_.lane.size.constant() : 1);
  const int64_t chunks = std::exchange(chunks_, 1);
  memo_.clear();
  lane_level_ = 0;
  std::vector<std::pair<Size, Index*>> parts;  // innermost first
  if (nest_.has_lane) parts.push_back({nest_.lane.size.constant(), &leaf_value_[nest_.lane.innermost()]});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size.constant(), &leaf_value_[nest_.outer[k].innermost()]});
  Index result;
  const auto units = open(results, true, {{results, &result}});
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
  Affine index;
  for (const Affine::Term& term : result.affine.terms) index.add(chunks * term.factor.constant, term.value);
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
