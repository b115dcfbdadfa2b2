// loops/schedule/gpu/tile.cpp: kernels that read along one axis what they write along another. A block copies a
// tile of what it reads into shared memory, neighbouring threads reading neighbours, and then walks through the
// tile the other way. Threads move 32 bits: two elements of 16, in tiles of twice the side. A line of the tile is
// that much longer than it needs to be, so that its columns lie in different banks.
#include <algorithm>
#include <tuple>
#include <utility>

#include "loops/schedule/gpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Op;

namespace {

int64_t coefficient(const Affine& affine, ValueId value) {
  for (const Affine::Term& term : affine.terms)
    if (term.value == value) return term.factor.constant;
  return 0;
}

Affine affine_of(std::initializer_list<std::pair<int64_t, ValueId>> terms) {
  Affine out;
  for (const auto& [factor, value] : terms) out.add(factor, value);
  return out;
}

}  // namespace

/// Neighbours that a thread of a tile moves at once.
int64_t GpuNest::tile_vector(const LoopAxis& along) const {
  const int64_t word = limits_.bank_bytes;
  int64_t narrowest = word;
  for (const AccessPattern& access : accesses_)
    if (access.base) narrowest = std::min(narrowest, ir::byte_size(access.base->type->dtype));
  const int64_t vector = word / narrowest;
  return nest_.lane.size.constant() % vector == 0 && along.size.constant() % vector == 0 ? vector : 1;
}

/// A walk over a tile: warps and steps over one side, the threads of a warp over the other.
struct GpuNest::Walk {
  std::unique_ptr<Loop> warps = std::make_unique<Loop>(), threads = std::make_unique<Loop>(),
                        steps = std::make_unique<Loop>(), lanes;
  ValueId guard = none;  ///< Of places that lie in the tensor.
  Block body;
};

/// Indices along the lane and along the other axis, of what the body is about. The walk that fills the tile has its
/// threads along the other axis, since that is how the lines lie that it reads.
std::pair<Affine, Affine> GpuNest::open_walk(Walk& walk, const LoopAxis& along, bool fills) {
  const int64_t vector = tiling_->vector, side = limits_.tile_side * vector;
  const int64_t warps = limits_.block_threads / limits_.warp;
  for (const auto& [loop, end, bind] : {std::tuple(walk.warps.get(), warps, Schedule::Bind::warp),
                                        std::tuple(walk.threads.get(), limits_.warp, Schedule::Bind::thread),
                                        std::tuple(walk.steps.get(), side / warps, Schedule::Bind::none)}) {
    loop->var = kernel_.add_value(DType::i64);
    loop->end = Extent(end);
    loop->schedule.bind = bind;
  }
  walk.steps->schedule.unroll = static_cast<int32_t>(side / warps);
  const Affine across = affine_of({{warps, walk.steps->var}, {1, walk.warps->var}});
  const Affine thread = affine_of({{vector, walk.threads->var}});
  Affine lane = fills ? across : thread, other = fills ? thread : across;
  lane.add(1, tiling_->lane_begin);
  other.add(1, tiling_->along_begin);
  // Vectors are inside or outside as a whole.
  Builder inside(kernel_, walk.steps->body);
  for (const auto& [index, size] :
       {std::pair(&lane, nest_.lane.size.constant()), std::pair(&other, along.size.constant())}) {
    if (size % side == 0) continue;
    const ValueId limit = inside.constant(DType::i64, Number::of_int(size));
    const ValueId present = inside.compute(Op::lt, {inside.affine(*index), limit});
    walk.guard = walk.guard == none ? present : inside.compute(Op::bitwise_and, {walk.guard, present});
  }
  if (vector > 1) {
    walk.lanes = std::make_unique<Loop>();
    walk.lanes->var = kernel_.add_value(DType::i64);
    walk.lanes->end = Extent(vector);
    walk.lanes->schedule.vector = true;
    (fills ? other : lane).add(1, walk.lanes->var);
  }
  return {lane, other};
}

void GpuNest::close_walk(Walk& walk) {
  if (walk.lanes) {
    walk.lanes->body = std::exchange(walk.body, Block());
    walk.body.push_back(as_statement(std::move(walk.lanes)));
  }
  close_guarded(walk.steps->body, walk.guard, std::move(walk.body));
  walk.threads->body.push_back(as_statement(std::move(walk.steps)));
  walk.warps->body.push_back(as_statement(std::move(walk.threads)));
  blocks_[0]->push_back(as_statement(std::move(walk.warps)));
}

/// The loop over tiles: a block each. Sets the tiling's first indices, and those of the other outer axes.
Loop GpuNest::tile_loop(const LoopAxis& along) {
  const int64_t side = limits_.tile_side * tiling_->vector;
  const auto tiles = [&](const LoopAxis& axis) { return (axis.size.constant() + side - 1) / side; };
  Loop block;
  block.var = kernel_.add_value(DType::i64);
  block.end = Extent(nest_.outer_size().constant() * tiles(along) * tiles(nest_.lane));
  block.schedule.parallel = true;
  block.schedule.bind = Schedule::Bind::block;
  blocks_[0] = &block.body;
  Index lane_tile, along_tile;
  std::vector<std::pair<Size, Index*>> parts = {{tiles(nest_.lane), &lane_tile}, {tiles(along), &along_tile}};
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size.constant(), &leaf_value_[nest_.outer[k].innermost()]});
  split_index(affine_of({{1, block.var}}), parts);
  const auto first = [&](const Index& tile) {
    Affine begin;
    for (const Affine::Term& term : tile.affine.terms) begin.add(side * term.factor.constant, term.value);
    return at(0).affine(begin);
  };
  tiling_->lane_begin = first(lane_tile);
  tiling_->along_begin = first(along_tile);
  return block;
}

void GpuNest::build_tiled(size_t along_index) {
  const LoopAxis along = nest_.outer[along_index];
  nest_.outer.erase(nest_.outer.begin() + static_cast<int64_t>(along_index));
  Tiling tiling;
  tiling_ = &tiling;
  tiling.vector = tile_vector(along);
  Loop block = tile_loop(along);
  blocks_[0] = &block.body;

  Walk fill, use;
  open_walk(fill, along, true);
  tiling.fill = {fill.threads->var, fill.warps->var, fill.steps->var, fill.lanes ? fill.lanes->var : none,
                 &fill.body};
  const auto [lane, other] = open_walk(use, along, false);
  tiling.lane = use.threads->var, tiling.along = use.warps->var, tiling.step = use.steps->var;
  tiling.part = use.lanes ? use.lanes->var : none;
  leaf_value_[nest_.lane.innermost()] = {lane, 1};
  leaf_value_[along.innermost()] = {other, 1};
  blocks_[1] = &use.body;
  lane_level_ = 1;
  store_all(0, false);
  blocks_[1] = nullptr;
  if (!tiling.copies.empty()) {
    close_walk(fill);
    block.body.push_back(barrier());
  }
  close_walk(use);
  blocks_[0] = nullptr;
  tiling_ = nullptr;
  kernel_.body.push_back(as_statement(std::make_unique<Loop>(std::move(block))));
}

NestBuilder::Scalar GpuNest::load_nearby(BufferId buffer, const Affine& offset, const std::vector<Index>& place) {
  if (!tiling_) return {};
  const int64_t vector = tiling_->vector, side = limits_.tile_side * vector;
  const int64_t warps = limits_.block_threads / limits_.warp, pitch = side + vector;
  const auto of_tile = [&](ValueId value) {
    return value == tiling_->lane || (vector > 1 && value == tiling_->part) || value == tiling_->along ||
           value == tiling_->step || value == tiling_->lane_begin || value == tiling_->along_begin;
  };
  // What lies between the tile's loops and the body (an index read from memory) cannot move the tile itself.
  for (const Index& index : place)
    for (const Affine::Term& term : index.affine.terms)
      if (index.level != 0 && !of_tile(term.value) && coefficient(offset, term.value) != 0) return {};
  const int64_t lane = coefficient(offset, vector > 1 ? tiling_->part : tiling_->lane);
  if (coefficient(offset, tiling_->along) != 1 || lane == 0 || lane == 1) return {};
  Affine start;
  start.offset = offset.offset;
  for (const Affine::Term& term : offset.terms)
    if (term.value != tiling_->lane && term.value != tiling_->along && term.value != tiling_->step &&
        (vector == 1 || term.value != tiling_->part))
      start.add(term.factor, term.value);
  BufferId tile = none;
  for (const Tiling::Copy& copy : tiling_->copies)
    if (copy.from == buffer && copy.offset == start && copy.pitch == lane) tile = copy.tile;
  if (tile == none) {
    const auto& [thread, warp, step, part, body] = tiling_->fill;
    tile = at(0).alloc(concat("tile", tiling_->copies.size()), kernel_.buffers[buffer].dtype, Extent(side * pitch),
                       Space::shared);
    Builder fill(kernel_, *body);
    Affine from = start;
    from.add(lane * warps, step);
    from.add(lane, warp);
    from.add(vector, thread);
    Affine to = affine_of({{pitch * warps, step}, {pitch, warp}, {vector, thread}});
    if (vector > 1) {
      from.add(1, part);
      to.add(1, part);
    }
    fill.store(tile, to, fill.load(buffer, from));
    tiling_->copies.push_back({buffer, tile, start, lane});
  }
  Affine here = affine_of({{pitch * vector, tiling_->lane}, {warps, tiling_->step}, {1, tiling_->along}});
  if (vector > 1) here.add(pitch, tiling_->part);
  return {at(1).load(tile, here), 1};
}

}  // namespace braze::loops
