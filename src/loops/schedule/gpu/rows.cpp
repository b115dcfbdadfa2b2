// loops/schedule/gpu/rows.cpp: reductions along contiguous axes. A short row is a warp's, a long one a block's, and
// a very long one, or one of few, a cluster's, whose blocks tell each other what they have found:
//
//   for %row in 0..4096 parallel bind=block {
//     alloc %kept: f32[4096] registers
//     %max = for %t in 0..256 bind=thread reduce max {
//       %first = affine 4*%t
//       %m = for %k in %first..4096 step 1024 unroll=4 reduce max {
//         %n = for %v in 0..4 vector reduce max { %x = load %in[4096*%row + %k + %v] ... }
//
// Every thread sees the same elements in each pass, so what one pass keeps for the next stays in its registers.
// Rows that are too long for these are kept in shared memory, and longer ones read again.
#include <algorithm>
#include <bit>
#include <utility>

#include "loops/schedule/gpu/schedule.h"
#include "support/error.h"

namespace braze::loops {

using ir::Op;

/// Blocks of the cluster that reduces a row of `length` elements, if a row is a block's or more. In a single pass a
/// long row is split into chunks instead, which need not wait for each other.
int64_t GpuNest::blocks_a_row(int64_t length) const {
  if (passes_ == 1) return 1;
  // What a block could just hold makes it wait for itself: half of that a block is faster where there are several.
  const int64_t part = std::max<int64_t>(1, limits_.cluster_row / 2);
  const int64_t by_length = length <= limits_.cluster_row ? 1 : (length + part - 1) / part;
  const int64_t idle = limits_.multiprocessors / std::max<int64_t>(1, hint(nest_.outer_size()));
  const int64_t wanted = std::max(by_length, std::min(idle, length / limits_.least_chunk));
  const int64_t blocks = std::clamp<int64_t>(wanted, 1, limits_.most_cluster);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(blocks)));
}

void GpuNest::build_rows() {
  const Size rows = nest_.outer_size() * chunks_;
  const bool warps =
      hint(nest_.reduced_size()) / chunks_ <= limits_.warp_row && hint(rows) >= limits_.multiprocessors;
  row_vector_ = vector_along(nest_.reduced.back());
  int64_t length = hint(nest_.reduced.back().size);
  if (nest_.reduced.size() == 1) length /= chunks_;
  row_blocks_ = warps ? 1 : blocks_a_row(length);
  const auto a_thread =
      static_cast<uint64_t>(std::max<int64_t>(1, length / (row_blocks_ * row_vector_ * limits_.thread_vectors)));
  row_threads_ = row_blocks_ * std::clamp(static_cast<int64_t>(std::bit_ceil(a_thread)), limits_.least_threads,
                                          limits_.most_threads);
  std::vector<std::pair<Size, Index*>> parts;
  if (chunks_ > 1) parts.push_back({chunks_, &chunk_});
  for (size_t k = nest_.outer.size(); k-- > 0;)
    parts.push_back({nest_.outer[k].size, &leaf_value_[nest_.outer[k].innermost()]});

  std::unique_ptr<Units> units;
  Loop block;
  if (warps) {
    row_threads_ = limits_.warp;
    units = open(rows, true, std::move(parts));
  } else {
    block.var = kernel_.add_value(DType::i64);
    block.end = extents_.of(rows);
    block.schedule.parallel = true;
    block.schedule.bind = Schedule::Bind::block;
    block.schedule.cluster = static_cast<int32_t>(row_blocks_);
    blocks_[0] = &block.body;
    Affine number;
    number.add(1, block.var);
    split_index(number, parts);
  }
  lane_level_ = 0;
  place_kept();
  for (int pass = 0; pass < passes_; ++pass) run_pass(pass);
  if (partials_.empty()) store_all(passes_, true);
  if (warps) return close(*units);
  blocks_[0] = nullptr;
  kernel_.body.push_back(as_statement(std::make_unique<Loop>(std::move(block))));
}

/// Where what is kept between passes lies: spread over the threads (in registers, and where these do not suffice in
/// shared memory), else in shared memory, or, if there is too much of it, nowhere. What was read from memory is
/// kept as it lies there; what is computed from it is the first to go.
void GpuNest::place_kept() {
  if (!knows_row()) return kept_.clear();
  const auto type_of = [](const Kept& kept) {
    const DType type = kept.value->type->dtype;
    return kept.label.empty() ? ir::compute_dtype(type) : type;
  };
  const int64_t last = nest_.reduced.back().size.constant(), step = row_threads_ * row_vector_;
  // Of a reduction over nothing nothing is kept.
  const int64_t others = last == 0 ? 0 : nest_.reduced_size().constant() / last;
  const int64_t thread_elements = others * ((last + step - 1) / step) * row_vector_;
  const int64_t block_threads = std::max(row_threads_ / row_blocks_, limits_.block_threads);
  const int64_t words = std::min<int64_t>(limits_.registers / block_threads, target_.vector_registers) -
                        limits_.busy_registers + (limits_.shared_bytes - limits_.scratch_bytes) / block_threads / 4;
  const auto spread = [&] {
    int64_t wanted = 0;
    for (const Kept& kept : kept_) wanted += (thread_elements * ir::byte_size(type_of(kept)) + 3) / 4;
    return thread_elements <= limits_.kept && wanted <= words;
  };
  const auto loads = std::ranges::count_if(kept_, [](const Kept& kept) { return !kept.label.empty(); });
  bool registers = spread();
  if (!registers && loads > 0 && thread_elements <= limits_.kept) {
    std::erase_if(kept_, [](const Kept& kept) { return kept.label.empty(); });
    registers = spread();
  }
  int64_t bytes = limits_.scratch_bytes;
  for (const Kept& kept : kept_) bytes += nest_.reduced_size().constant() * ir::byte_size(type_of(kept));
  const bool alone = row_threads_ == limits_.warp || row_blocks_ > 1;
  if (!registers && (alone || bytes > limits_.shared_bytes)) kept_.clear();
  for (Kept& kept : kept_)
    kept.buffer = at(0).alloc(concat("row", kept.value->id), type_of(kept), Extent(nest_.reduced_size().constant()),
                              registers ? Space::registers : Space::shared);
}

void GpuNest::run_pass(int number) {
  std::erase_if(memo_, [](const Memo& memo) { return memo.scalar.level == 2; });
  const LoopAxis& last = nest_.reduced.back();
  const size_t depth = nest_.reduced.size();
  number_reduced();
  const ValueId position = leaf_value_[last.innermost()].affine.terms[0].value;
  const ValueId lane = kernel_.add_value(DType::i64);
  if (row_vector_ > 1) leaf_value_[last.innermost()].affine.add(1, lane);
  Pass pass = evaluate_pass(number);
  if (pass.body.empty() && pass.reductions.empty()) return;

  auto threads = std::make_unique<Loop>();
  threads->var = kernel_.add_value(DType::i64);
  threads->end = Extent(row_threads_);
  threads->schedule.bind = Schedule::Bind::thread;
  std::vector<Span> spans;
  for (size_t k = 0; k < depth; ++k) spans.push_back(whole_span(k, at(0)));
  // A thread begins at its own vector, in the row or in the chunk of it.
  Affine begin;
  begin.add(row_vector_, threads->var);
  if (spans.back().begin != none) begin.add(1, spans.back().begin);
  spans.back().begin = Builder(kernel_, threads->body).affine(begin);

  Block inner = std::move(pass.body);
  const auto wrap_in = [&](std::unique_ptr<Loop> loop) {
    Stmt stmt = wrap(std::move(loop), std::exchange(inner, {}), pass.reductions);
    inner.push_back(std::move(stmt));
  };
  if (row_vector_ > 1) {
    auto vector = std::make_unique<Loop>();
    vector->var = lane;
    vector->end = Extent(row_vector_);
    vector->schedule.vector = true;
    wrap_in(std::move(vector));
  }
  for (size_t k = depth; k-- > 0;) {
    auto loop = std::make_unique<Loop>();
    const bool shared_out = k + 1 == depth;
    loop->var = shared_out ? position : leaf_value_[nest_.reduced[k].innermost()].affine.terms[0].value;
    loop->end = extents_.of(nest_.reduced[k].size);
    loop->begin_value = spans[k].begin;
    loop->end_value = spans[k].end;
    if (shared_out) {
      // What is kept in registers has numbers of its own only where the loop is written out.
      const int64_t copies = limits_.loads_in_flight;
      const bool registers = !kept_.empty() && kernel_.buffers[kept_[0].buffer].space == Space::registers;
      loop->step = row_vector_ * row_threads_;
      const int64_t steps = (hint(nest_.reduced[k].size) / (k == 0 ? chunks_ : 1) + loop->step - 1) / loop->step;
      loop->schedule.unroll =
          static_cast<int32_t>(registers ? steps : std::min(copies, std::max<int64_t>(1, steps)));
    }
    wrap_in(std::move(loop));
  }
  Stmt all = wrap(std::move(threads), std::move(inner), pass.reductions);
  blocks_[0]->push_back(std::move(all));
  remember(pass, *blocks_[0]->back().loop, 0);
  if (kept_.empty() || kernel_.buffers[kept_[0].buffer].space != Space::shared) return;
  blocks_[0]->push_back(barrier());
}

}  // namespace braze::loops
