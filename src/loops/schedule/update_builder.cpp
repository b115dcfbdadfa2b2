#include "loops/schedule/update_builder.h"

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

}  // namespace

UpdateBuilder::UpdateBuilder(const ir::Node* node, const Facts& facts)
    : node_(*node), facts_(facts), result_(&node->results[0]), to_(facts.windows.storage(result_)) {
  sizes_ = list_of(node_.operands[1]->type->sizes);
  places_.resize(sizes_.size());
  if (node_.op == Op::scatter) {
    first_ = static_cast<size_t>(node_.int_attr("dim"));
    indexed_ = index_rank_ = 1;
  } else {
    first_ = static_cast<size_t>(node_.ints_attr("dims")[0]);
    indexed_ = node_.ints_attr("dims").size();
    index_rank_ = sizes_.size() + indexed_ - static_cast<size_t>(result_->type->rank());
  }
}

KernelDraft UpdateBuilder::build() {
  to_buffer_ = add_buffer(result_, Access::inout);
  source_ = add_buffer(facts_.windows.base(node_.operands[1]), Access::in);
  add_indices();
  build_loops();
  drop_unused_symbols(kernel_, draft_.symbols);
  const int64_t updates = facts_.elements(node_.operands[1]), bytes = ir::byte_size(result_->type->dtype);
  draft_.bytes_written = updates * bytes;
  draft_.bytes_read = updates * bytes;
  for (size_t k = 2; k < node_.operands.size(); ++k) {
    const Value* index = node_.operands[k];
    draft_.bytes_read += facts_.elements(index) * ir::byte_size(index->type->dtype);
  }
  return std::move(draft_);
}

void UpdateBuilder::add_indices() {
  for (size_t k = 2; k < node_.operands.size(); ++k)
    indices_.push_back(add_buffer(facts_.windows.base(node_.operands[k]), Access::in));
}

KernelDraft UpdateBuilder::build_checks() {
  only_checks_ = true;
  add_indices();
  // An index is looked at once, however many updates it is of.
  std::vector<bool> counts(sizes_.size());
  for (size_t k = 2; k < node_.operands.size(); ++k) {
    const Window& window = facts_.windows.of(node_.operands[k]);
    const size_t end = node_.op == Op::scatter ? sizes_.size() : first_ + index_rank_;
    for (size_t own = 0; own < window.sizes.size(); ++own)
      if (window.strides[own] != 0) counts[end - window.sizes.size() + own] = true;
  }
  for (size_t k = 0; k < sizes_.size(); ++k)
    if (!counts[k]) sizes_[k] = 1;
  build_loops();
  drop_unused_symbols(kernel_, draft_.symbols);
  return std::move(draft_);
}

BufferId UpdateBuilder::add_buffer(const Value* base, Access access) {
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

/// Where a window that spans the dimensions [from, to) of the updates, right-aligned, is read.
Affine UpdateBuilder::read_place(const Window& window, size_t to) {
  Affine index;
  index.offset = extents_.of(window.offset);
  for (size_t k = 1; k <= window.sizes.size(); ++k) {
    const size_t own = window.sizes.size() - k;
    if (window.sizes[own] != 1) extents_.add(index, window.strides[own], places_[to - k]);
  }
  return index;
}

ValueId UpdateBuilder::checked_index(Builder& builder, size_t which) {
  const Window& window = facts_.windows.of(node_.operands[2 + which]);
  const bool full = node_.op == Op::scatter;
  const Affine place = read_place(window, full ? sizes_.size() : first_ + index_rank_);
  ValueId index = builder.cast(builder.load(indices_[which], place), DType::i64);
  const Size extent = result_->type->sizes.symbolic()[first_ + which];
  if (!full) {
    const ValueId zero = builder.constant(DType::i64, Number::of_int(0));
    const ValueId size = extents_.value(builder, extent);
    index = builder.compute(
        Op::where, {builder.compute(Op::lt, {index, zero}), builder.compute(Op::add, {index, size}), index});
  }
  return builder.checked(index, extents_.of(extent));
}

void UpdateBuilder::emit_update(Block& block, std::optional<AtomicOp> atomic) {
  Builder builder(kernel_, block);
  Affine place;
  for (size_t which = 0; which < indexed_; ++which)
    extents_.add(place, to_[first_ + which], checked_index(builder, which));
  if (only_checks_) return;
  for (size_t k = 0; k < sizes_.size(); ++k) {
    if (collides(k)) continue;
    const size_t own = k < first_ ? k : k - index_rank_ + indexed_;
    if (result_->type->sizes.symbolic()[own] != 1) extents_.add(place, to_[own], places_[k]);
  }
  const Window& source = facts_.windows.of(node_.operands[1]);
  ValueId value = builder.load(source_, read_place(source, sizes_.size()));
  if (atomic) {
    Stmt stmt{};
    stmt.kind = StmtKind::atomic;
    stmt.type = kernel_.types[value];
    stmt.atomic = *atomic;
    stmt.buffer = to_buffer_;
    stmt.index = place;
    stmt.args = {value};
    block.push_back(std::move(stmt));
    return;
  }
  if (const auto op = combining_op(node_.text_attr("combine")))
    value = builder.compute(*op, {builder.load(to_buffer_, place), value});
  builder.store(to_buffer_, place, value);
}

KernelDraft build_update(const ir::Node* update, const Facts& facts) {
  return (facts.target(update).is_gpu() ? make_gpu_update : make_cpu_update)(update, facts)->build();
}

KernelDraft build_update_checks(const ir::Node* update, const Facts& facts) {
  return make_cpu_update(update, facts)->build_checks();
}

}  // namespace braze::loops
