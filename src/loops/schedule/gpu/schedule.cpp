// loops/schedule/gpu/schedule.cpp: which form a kernel's loops have, and how they are shared out.
#include "loops/schedule/gpu/schedule.h"

#include <algorithm>
#include <limits>

#include "support/error.h"

namespace braze::loops {

using ir::Op;
using ir::Value;

void GpuNest::build_loops() {
  if (!reduces()) {
    build_points();
  } else {
    if (nest_.form != LoopNest::Form::rows && nest_.has_lane) column_vector_ = column_vector();
    choose_chunks();
    if (chunks_ > 1) add_partials(results());
    nest_.form == LoopNest::Form::rows ? build_rows() : build_columns();
    if (chunks_ > 1) join_chunks();
  }
  kernel_.narrow = indices_are_narrow();
}

std::unique_ptr<Units> GpuNest::open(Size count, bool warps, const std::vector<std::pair<Size, Index*>>& parts) {
  auto units = open_units(kernel_, extents_, limits_, count, warps);
  blocks_[0] = &units->body;
  split_index(units->number, parts);
  return units;
}

void GpuNest::close(Units& units) {
  close_units(kernel_, units);
  blocks_[0] = nullptr;
}

/// How many neighbours along `axis` a thread takes at once: 1 where some access does not walk along it
/// contiguously.
int64_t GpuNest::vector_along(const LoopAxis& axis) const {
  if (axis.size == 1) return 1;
  int64_t narrowest = 8, widest = 1;
  for (const AccessPattern& access : accesses_) {
    if (!access.base) continue;
    const Size stride = access.strides[axis.innermost()];
    if (stride == 0) continue;
    if (stride != 1) return 1;
    const int64_t bytes = ir::byte_size(access.base->type->dtype);
    narrowest = std::min(narrowest, bytes);
    widest = std::max(widest, bytes);
  }
  int64_t vector = std::min<int64_t>(target_.vector_bytes / narrowest, limits_.moved_bytes / widest);
  // Where rows follow each other, vectors of one that is no whole number of them would not be aligned.
  while (vector > 1 && !divides(vector, axis.size)) vector /= 2;
  return std::max<int64_t>(1, vector);
}

/// Columns that a lane of build_block_columns takes at once: as many as leave each multiprocessor a block.
int64_t GpuNest::column_vector() const {
  int64_t vector = vector_along(nest_.lane);
  const auto blocks = [&](int64_t columns) {
    const int64_t tiles = hint(nest_.outer_size()) * (hint(nest_.lane.size) / (limits_.warp * columns));
    const int64_t input = hint(nest_.reduced_size()) * limits_.warp * columns;
    return tiles * std::max<int64_t>(1, passes_ > 1 ? 1 : input / limits_.least_chunk);
  };
  while (vector > 1 && blocks(vector) < limits_.multiprocessors) vector /= 2;
  return vector;
}

bool GpuNest::knows_row() const {
  return std::ranges::all_of(nest_.reduced, [](const LoopAxis& axis) { return axis.size.is_constant(); });
}

bool GpuNest::knows_sizes() const {
  const auto known = [](const Sizes& sizes) {
    return std::ranges::all_of(sizes, [](Size size) { return size.is_constant(); });
  };
  return known(leaves_.sizes) &&
         std::ranges::all_of(accesses_, [&](const AccessPattern& access) { return known(access.strides); });
}

bool GpuNest::indices_are_narrow() const {
  if (!knows_sizes()) return false;
  // A block more than there is work for counts on, and so does a vector.
  const int64_t most = std::numeric_limits<int32_t>::max() - limits_.most_threads * limits_.moved_bytes;
  int64_t space = 1;
  for (const int64_t size : numbers(leaves_.sizes)) {
    if (space > most / std::max<int64_t>(1, size)) return false;
    space *= size;
  }
  return std::ranges::all_of(draft_.parameters, [&](const KernelDraft::Parameter& parameter) {
    if (!parameter.value)
      return parameter.scratch_bytes.is_constant() && parameter.scratch_bytes.constant() <= most;
    const auto& strides = facts_.windows.storage(parameter.value);
    const auto sizes = parameter.value->type->sizes.symbolic();
    int64_t last = 0;
    for (size_t k = 0; k < strides.size(); ++k) {
      if (!sizes[k].is_constant() || !strides[k].is_constant()) return false;
      last += std::max<int64_t>(0, sizes[k].constant() - 1) * strides[k].constant();
    }
    return last <= most;
  });
}

}  // namespace braze::loops
