// loops/schedule/cpu/tile.cpp: kernels that read along one axis what they write along another.
//
// Such a kernel runs over tiles. What it reads across is first copied, transposed, into a tile in the nearest
// cache, whole cache lines at a time; the loops over the tile then read and write along the lanes. A kernel that
// does nothing else needs no tile in memory (Emitter::emit_transposed_copy).
#include <algorithm>

#include "loops/schedule/cpu/schedule.h"
#include "loops/transposes.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// The group is one op that only moves elements.
bool only_copies(const Group& group, const std::vector<AccessPattern>& accesses) {
  if (group.nodes.size() != 1) return false;
  const AccessPattern* load = nullptr;
  int64_t loads = 0;
  for (const AccessPattern& access : accesses)
    if (access.base && !access.is_store) ++loads, load = &access;
  return loads == 1 && load->base->type->dtype == group.nodes[0]->results[0].type->dtype;
}

}  // namespace

/// Elements along the sides of a tile.
int64_t CpuNest::tile_length() const {
  int64_t widest = 1;
  for (const AccessPattern& access : accesses_)
    if (access.base) widest = std::max(widest, ir::byte_size(access.base->type->dtype));
  // Copies go through no tile in memory, and what counts is how seldom they change pages: longer runs, both ways.
  if (only_copies(group_, accesses_)) return std::min(limits_.tile_side, limits_.run_bytes / widest);
  int64_t length = target_.line_elements();
  while (length * length * 4 * widest <= target_.near_cache / 3) length *= 2;
  return length;
}

/// Where a tile that begins at `begin` ends; none if all tiles are whole. `valid` is how long it is then.
ValueId CpuNest::tile_end(Builder& builder, ValueId begin, Size size, int64_t tile, ValueId& valid) {
  if (mod(size, tile) == 0) return none;
  Affine next;
  next.add(1, begin);
  next.offset = Extent(tile);
  const ValueId limit = extents_.value(builder, size);
  const ValueId end = builder.compute(ir::Op::minimum, {builder.affine(next), limit});
  valid = builder.compute(ir::Op::sub, {end, begin});
  return end;
}

/// A loop over one side of a tile.
std::unique_ptr<Loop> CpuNest::side_loop(Size size, ValueId begin, ValueId end, Builder& builder) {
  auto loop = std::make_unique<Loop>();
  loop->var = kernel_.add_value(DType::i64);
  loop->end = extents_.of(size);
  loop->begin_value = begin;
  Affine next;
  next.add(1, begin);
  next.offset = Extent(tiling_->length);
  loop->end_value = end != none ? end : builder.affine(next);
  return loop;
}

void CpuNest::build_tiled(size_t along_index) {
  const LoopAxis along = nest_.outer[along_index];
  nest_.outer.erase(nest_.outer.begin() + static_cast<int64_t>(along_index));
  Tiling tiling;
  tiling.length = tiling.lanes = tile_length();
  tiling_ = &tiling;

  // Top-level loop over the other outer axes and the tiles along `along`; in it a loop over the tiles along the
  // lanes.
  auto top = std::make_unique<Loop>();
  const LoopAxis tiles{along.leaves, ceil_div(along.size, tiling.length)};
  nest_.outer.push_back(tiles);
  top->end = extents_.of(nest_.outer_size());
  top->schedule.parallel = true;
  top->schedule.grain = grain(tiling.length * hint(nest_.lane.size));
  blocks_[0] = &top->body;
  open_outer(*top);
  const Index tile_index = leaf_value_[along.innermost()];
  const Affine along_begin = extents_.scaled(tiling.length, tile_index.affine);
  Builder outside(kernel_, top->body);
  tiling.along_begin = outside.affine(along_begin);
  const ValueId along_end = tile_end(outside, tiling.along_begin, along.size, tiling.length, tiling.along_valid);

  auto lane_tiles = std::make_unique<Loop>();
  lane_tiles->var = kernel_.add_value(DType::i64);
  lane_tiles->end = extents_.of(nest_.lane.size);
  lane_tiles->step = tiling.lanes;
  tiling.lane_begin = lane_tiles->var;
  tiling.fill = &lane_tiles->body;
  Builder fill(kernel_, lane_tiles->body);
  const ValueId lane_end = tile_end(fill, tiling.lane_begin, nest_.lane.size, tiling.lanes, tiling.lane_valid);

  auto along_loop = side_loop(along.size, tiling.along_begin, along_end, outside);
  auto lane_loop = side_loop(nest_.lane.size, tiling.lane_begin, lane_end, fill);
  lane_loop->schedule.vector = true;
  tiling.along = along_loop->var;
  tiling.lane = lane_loop->var;
  for (const auto& [axis, var] : {std::pair<const LoopAxis*, ValueId>(&along, tiling.along),
                                  std::pair<const LoopAxis*, ValueId>(&nest_.lane, tiling.lane)}) {
    Index& index = leaf_value_[axis->innermost()];
    index = {};
    index.affine.add(1, var);
    index.level = 1;
  }
  blocks_[1] = &lane_loop->body;
  lane_level_ = 1;
  store_all(0, false);

  along_loop->body.push_back(as_statement(std::move(lane_loop)));
  lane_tiles->body.push_back(as_statement(std::move(along_loop)));
  top->body.push_back(as_statement(std::move(lane_tiles)));
  kernel_.body.push_back(as_statement(std::move(top)));
  tiling_ = nullptr;
}

NestBuilder::Scalar CpuNest::load_nearby(BufferId buffer, const Affine& offset, const std::vector<Index>& place) {
  if (!tiling_) return {};
  // What lies between the tile's loops and the body (an index read from memory) cannot move the tile itself.
  bool movable = true;
  for (size_t k = 0; k < place.size(); ++k)
    for (const Affine::Term& term : place[k].affine.terms)
      movable &= place[k].level == 0 || term.value == tiling_->lane || term.value == tiling_->along;
  return movable ? load_from_tile(buffer, offset) : Scalar{};
}

/// A load through a transposed tile, if it is one across the lanes and along the tile's other side; else no value.
NestBuilder::Scalar CpuNest::load_from_tile(BufferId buffer, const Affine& offset) {
  Extent lane, along;
  Affine start;
  start.offset = offset.offset;
  for (const Affine::Term& term : offset.terms) {
    if (term.value == tiling_->lane) {
      lane = term.factor;
      start.add(lane, tiling_->lane_begin);
    } else if (term.value == tiling_->along) {
      along = term.factor;
      start.add(along, tiling_->along_begin);
    } else {
      start.add(term.factor, term.value);
    }
  }
  if (along != Extent(1) || lane == Extent(0) || lane == Extent(1)) return {};
  BufferId tile = none;
  for (const Tiling::Copy& copy : tiling_->copies)
    if (copy.from == buffer && copy.offset == start && copy.pitch == lane) tile = copy.tile;
  if (tile == none) {
    const DType dtype = kernel_.buffers[buffer].dtype;
    tile = at(0).alloc(concat("tile", tiling_->copies.size()), dtype, Extent(tiling_->lanes * tiling_->length));
    Stmt stmt{};
    stmt.kind = StmtKind::transpose;
    stmt.buffer = tile;
    stmt.sources = {buffer};
    stmt.index = start;
    stmt.shape = {tiling_->lanes, 1, tiling_->length, 1};
    set_row_step(stmt, lane);
    if (tiling_->lane_valid != none || tiling_->along_valid != none)
      stmt.valid = {present(tiling_->lane_valid, tiling_->lanes), present(tiling_->along_valid, tiling_->length)};
    tiling_->fill->push_back(std::move(stmt));
    tiling_->copies.push_back({buffer, tile, start, lane});
  }
  // tile[(along - along_begin) * lanes + (lane - lane_begin)]
  Affine place;
  place.add(tiling_->lanes, tiling_->along);
  place.add(-tiling_->lanes, tiling_->along_begin);
  place.add(1, tiling_->lane);
  place.add(-1, tiling_->lane_begin);
  return {at(1).load(tile, place), 1};
}

/// Sides without a remainder are always whole.
ValueId CpuNest::present(ValueId valid, int64_t all) {
  return valid != none ? valid : at(0).constant(DType::i64, Number::of_int(all));
}

}  // namespace braze::loops
