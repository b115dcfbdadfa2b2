// loops/schedule/gpu/points.cpp: kernels without reductions: all elements in a row, a vector of them a thread.
//
//   for %b in 0..16384 parallel bind=block {
//     for %t in 0..256 bind=thread {
//       for %v in 0..4 vector { %x = load %in[1024*%b + 4*%t + %v] ... }
//
// Axes that cannot be walked through as one are taken out of the thread's number, innermost first.
#include <algorithm>

#include "loops/schedule/gpu/schedule.h"

namespace braze::loops {

void GpuNest::build_points() {
  if (knows_sizes())
    if (const size_t along = crosswise_axis(limits_.warp / 2); along < nest_.outer.size())
      return build_tiled(along);
  const int64_t vector = nest_.has_lane ? vector_along(nest_.lane) : 1;
  const Size lanes = nest_.has_lane ? floor_div(nest_.lane.size, vector) : Size(1);
  Index number;
  std::vector<std::pair<Size, Index*>> parts = {{lanes, &number}};
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});
  const auto units = open(lanes * nest_.outer_size(), false, std::move(parts));
  lane_level_ = 0;
  if (vector == 1) {
    if (nest_.has_lane) leaf_value_[nest_.lane.innermost()] = number;
    store_all(0, false);
    return close(*units);
  }
  auto loop = std::make_unique<Loop>();
  loop->var = kernel_.add_value(DType::i64);
  loop->end = Extent(vector);
  loop->schedule.vector = true;
  Index& lane = leaf_value_[nest_.lane.innermost()];
  lane = {extents_.scaled(vector, number.affine), 0};
  lane.affine.add(1, loop->var);
  lane.level = lane_level_ = 1;
  blocks_[1] = &loop->body;
  store_all(0, false);
  blocks_[1] = nullptr;
  units->body.push_back(as_statement(std::move(loop)));
  close(*units);
}

}  // namespace braze::loops
