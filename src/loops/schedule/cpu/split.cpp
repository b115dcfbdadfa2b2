// loops/schedule/cpu/split.cpp: few results of much input: phase 0 reduces chunks in parallel into partial results,
// phase 1 joins those.
#include <algorithm>
#include <utility>

#include "loops/schedule/cpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::OpKind;
using ir::Value;

/// Few results of much input: phase 0 reduces chunks in parallel into partial results, phase 1 joins those.
void CpuNest::build_split() {
  const Size whole = nest_.reduced[0].size;
  const int64_t axis = hint(whole);
  const int64_t read = hint(nest_.reduced_size()) * (nest_.has_lane ? hint(nest_.lane.size) : 1);
  const int64_t wanted = std::min({limits_.most_chunks, axis, std::max<int64_t>(1, read / limits_.thread_work)});
  const int64_t length = (axis + wanted - 1) / std::max<int64_t>(1, wanted);
  chunks_ = (axis + length - 1) / std::max<int64_t>(1, length);
  if (chunks_ == 1) return build_reductions();
  const Size results = nest_.outer_size() * (nest_.has_lane ? nest_.lane.size : 1);
  chunk_length_ = ceil_div(whole, chunks_);
  add_partials(results);
  build_reductions();

  Stmt top{};
  top.kind = StmtKind::loop;
  top.loop = std::make_unique<Loop>();
  Loop& loop = *top.loop;
  loop.end = extents_.of(results);
  memo_.clear();
  blocks_ = {&loop.body, nullptr, nullptr};
  lane_level_ = 0;
  const int64_t chunks = std::exchange(chunks_, 1);
  if (nest_.has_lane) nest_.outer.push_back(nest_.lane);  // no lanes here: results are few
  open_outer(loop);
  Block body;
  Builder builder(kernel_, body);
  const ValueId chunk = kernel_.add_value(DType::i64);
  Affine index;
  index.add(chunks, loop.var);
  index.add(1, chunk);
  std::vector<Reduction> reductions;
  for (const Partial& partial : partials_) {
    Reduction reduction;
    reduction.combine = combine_of(partial.node->op);
    for (BufferId buffer : partial.buffers) {
      reduction.yielded.push_back(builder.load(buffer, index));
      reduction.results.push_back(kernel_.add_value(kernel_.types[reduction.yielded.back()]));
    }
    memo_.push_back({&partial.node->results[0], {}, {reduction.results.back(), 0}});
    reductions.push_back(std::move(reduction));
  }
  Stmt join{};
  join.kind = StmtKind::loop;
  join.loop = std::make_unique<Loop>();
  join.loop->var = chunk;
  join.loop->end = Extent(chunks);
  join.loop->body = std::move(body);
  join.loop->reductions = std::move(reductions);
  loop.body.push_back(std::move(join));
  store_all(0, true);
  kernel_.body.push_back(std::move(top));
}

}  // namespace braze::loops
