// loops/update.cpp: kernels that write at places read from index tensors.
//
// Updates that may meet in one element differ only in the indexed dimensions. Those are serial loops, so that such
// updates happen in row-major order, as in eager; all other dimensions run in parallel and over lanes.
//
//   scatter %base, %source, %index, dim=0      for %block in 0..columns step 64 parallel
//                                                for %row in 0..rows
//                                                  for %column in %block..min(%block + 64, columns) vector
#include <algorithm>

#include "loops/nest.h"
#include "support/error.h"

namespace braze::loops {

using ir::Op;
using ir::Value;

namespace {

/// What combines an element with an update; nullopt: it is replaced.
std::optional<Op> combining_op(std::string_view word) {
  if (word == "set") return std::nullopt;
  if (word == "add") return Op::add;
  if (word == "mul") return Op::mul;
  if (word == "max") return Op::maximum;
  BRAZE_CHECK(word == "min", "an unknown way to combine: ", word);
  return Op::minimum;
}

class UpdateBuilder {
 public:
  UpdateBuilder(const ir::Node* node, const Facts& facts)
      : node_(*node), facts_(facts), result_(&node->results[0]), to_(facts.windows.storage(result_)) {
    const auto sizes = node_.operands[1]->type->sizes;
    sizes_.assign(sizes.begin(), sizes.end());
    places_.resize(sizes_.size(), none);
    if (node_.op == Op::scatter) {
      first_ = static_cast<size_t>(node_.int_attr("dim"));
      indexed_ = index_rank_ = 1;
    } else {
      first_ = static_cast<size_t>(node_.ints_attr("dims")[0]);
      indexed_ = node_.ints_attr("dims").size();
      index_rank_ = sizes_.size() + indexed_ - static_cast<size_t>(result_->type->rank());
    }
  }

  KernelDraft build() {
    to_buffer_ = add_buffer(result_, Access::inout);
    source_ = add_buffer(facts_.windows.base(node_.operands[1]), Access::in);
    for (size_t k = 2; k < node_.operands.size(); ++k)
      indices_.push_back(add_buffer(facts_.windows.base(node_.operands[k]), Access::in));
    emit_update(*open_loops());
    const int64_t updates = node_.operands[1]->type->numel(), bytes = ir::byte_size(result_->type->dtype);
    draft_.bytes_written = updates * bytes;
    draft_.bytes_read = updates * bytes;
    for (size_t k = 2; k < node_.operands.size(); ++k) {
      const Value* index = node_.operands[k];
      draft_.bytes_read += index->type->numel() * ir::byte_size(index->type->dtype);
    }
    return std::move(draft_);
  }

 private:
  bool collides(size_t k) const { return k >= first_ && k < first_ + index_rank_; }

  BufferId add_buffer(const Value* base, Access access) {
    Buffer buffer;
    buffer.name = concat("v", kernel_.buffers.size());
    buffer.dtype = base->type->dtype;
    buffer.access = access;
    buffer.may_alias = false;  // nothing else in the launch is written
    buffer.alignment = ir::byte_size(buffer.dtype);
    kernel_.buffers.push_back(std::move(buffer));
    draft_.parameters.push_back({base, 0});
    return static_cast<BufferId>(kernel_.buffers.size() - 1);
  }

  /// Loops over all dimensions of the updates; the body of the innermost.
  Block* open_loops() {
    Block* block = &kernel_.body;
    const size_t rank = sizes_.size();
    const bool lanes = rank > 0 && !collides(rank - 1);
    bool top = true;
    auto open = [&](int64_t size, Schedule schedule) -> Loop& {
      schedule.parallel = top;
      Loop& loop = Builder(kernel_, *block).loop(0, size, schedule);
      block = &loop.body;
      top = false;
      return loop;
    };
    for (size_t k = 0; k + (lanes ? 1 : 0) < rank; ++k)
      if (!collides(k)) places_[k] = open(sizes_[k], {}).var;
    // Columns that a thread takes at once: whole lines of every type.
    const int64_t lane_block = facts_.target.cache_line;
    ValueId begin = none, end = none;
    if (top && lanes && sizes_.back() > lane_block &&
        node_.operands[1]->type->numel() >= facts_.target.cpu.thread_work) {
      Loop& blocks = open(sizes_.back(), {});
      blocks.step = lane_block;
      begin = blocks.var;
      Builder builder(kernel_, *block);
      Affine next;
      next.add(1, begin);
      next.offset = Extent(lane_block);
      const ValueId limit = builder.constant(DType::i64, Number::of_int(sizes_.back()));
      end = builder.compute(Op::minimum, {builder.affine(next), limit});
    }
    if (top) open(1, {});
    for (size_t k = 0; k < rank; ++k)
      if (collides(k)) places_[k] = open(sizes_[k], {}).var;
    if (lanes) {
      Schedule schedule;
      schedule.vector = true;
      Loop& loop = open(sizes_.back(), schedule);
      loop.begin_value = begin;
      loop.end_value = end;
      places_.back() = loop.var;
    }
    return block;
  }

  /// Where a window that spans the dimensions [from, to) of the updates, right-aligned, is read.
  Affine read_place(const Window& window, size_t to) const {
    Affine index;
    index.offset = Extent(window.offset);
    for (size_t k = 1; k <= window.sizes.size(); ++k) {
      const size_t own = window.sizes.size() - k;
      if (window.sizes[own] != 1) index.add(window.strides[own], places_[to - k]);
    }
    return index;
  }

  ValueId checked_index(Builder& builder, size_t which) {
    const Window& window = facts_.windows.of(node_.operands[2 + which]);
    const bool full = node_.op == Op::scatter;
    const Affine place = read_place(window, full ? sizes_.size() : first_ + index_rank_);
    ValueId index = builder.cast(builder.load(indices_[which], place), DType::i64);
    const int64_t extent = result_->type->sizes[first_ + which];
    if (!full) {
      const ValueId zero = builder.constant(DType::i64, Number::of_int(0));
      const ValueId size = builder.constant(DType::i64, Number::of_int(extent));
      index = builder.compute(
          Op::where, {builder.compute(Op::lt, {index, zero}), builder.compute(Op::add, {index, size}), index});
    }
    return builder.checked(index, Extent(extent));
  }

  void emit_update(Block& block) {
    Builder builder(kernel_, block);
    Affine place;
    for (size_t which = 0; which < indexed_; ++which) place.add(to_[first_ + which], checked_index(builder, which));
    for (size_t k = 0; k < sizes_.size(); ++k) {
      if (collides(k)) continue;
      const size_t own = k < first_ ? k : k - index_rank_ + indexed_;
      if (result_->type->sizes[own] != 1) place.add(to_[own], places_[k]);
    }
    const Window& source = facts_.windows.of(node_.operands[1]);
    ValueId value = builder.load(source_, read_place(source, sizes_.size()));
    if (const auto op = combining_op(node_.text_attr("combine")))
      value = builder.compute(*op, {builder.load(to_buffer_, place), value});
    builder.store(to_buffer_, place, value);
  }

  const ir::Node& node_;
  const Facts& facts_;
  const Value* result_;
  const std::vector<int64_t> to_;  ///< Strides of the result.
  std::vector<int64_t> sizes_;     ///< Of the updates.
  size_t first_ = 0;               ///< First indexed dimension.
  size_t indexed_ = 1;             ///< Dimensions of the result that are indexed.
  size_t index_rank_ = 1;          ///< Dimensions of the updates in their place.
  std::vector<ValueId> places_;    ///< Loop variable of each dimension of the updates.
  KernelDraft draft_{std::make_unique<Kernel>(), {}, {}, 0, 0};
  Kernel& kernel_ = *draft_.kernel;
  BufferId to_buffer_ = none, source_ = none;
  std::vector<BufferId> indices_;
};

}  // namespace

KernelDraft build_update(const ir::Node* update, const Facts& facts) {
  return UpdateBuilder(update, facts).build();
}

}  // namespace braze::loops
