// loops/schedule/cpu/schedule.cpp: which form a kernel's loops have, and how they are shared out.
#include "loops/schedule/cpu/schedule.h"

#include <algorithm>

namespace braze::loops {

using ir::Value;

void CpuNest::build_loops() {
  if (!reduces()) return build_points();
  group_.wide ? build_split() : build_reductions();
}

int64_t CpuNest::longest_kept() const {
  return target_.second_cache / 16 / 4;  // f32; rows of several threads and values lie there together
}

bool CpuNest::in_strips() const {
  return nest_.form == LoopNest::Form::columns && !rules().at_most(nest_.reduced_size(), limits_.register_rows);
}

bool CpuNest::streams(const Value* result, bool full) const {
  const int64_t bytes = facts_.elements(result) * ir::byte_size(result->type->dtype);
  const bool in_lanes = full || (nest_.form == LoopNest::Form::columns && !in_strips());
  return in_lanes && bytes >= target_.last_cache;
}

int64_t CpuNest::grain(int64_t elements) const {
  const int64_t instructions = elements * std::max(limits_.hidden, work_);
  return std::max<int64_t>(1, limits_.thread_work * limits_.hidden / std::max<int64_t>(1, instructions));
}

int32_t CpuNest::unroll_for(size_t statements) const {
  return statements <= limits_.unroll_four ? 4 : statements <= limits_.unroll_two ? 2 : 1;
}

/// Defines the indices of the outer axes, of the strip and of the chunk from the variable of the top-level loop.
void CpuNest::open_outer(Loop& loop) {
  loop.var = kernel_.add_value(DType::i64);
  std::vector<std::pair<Size, Index*>> parts;  // innermost first
  if (chunks_ > 1) parts.push_back({chunks_, &chunk_});
  if (strip_ && strip_->count != 1) parts.push_back({strip_->count, &strip_->number});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    if (nest_.outer[k].size != 0) parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});
  Affine whole;
  whole.add(1, loop.var);
  split_index(whole, parts);
}

}  // namespace braze::loops
