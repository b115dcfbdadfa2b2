// loops/schedule/gpu/product.cpp: a product of few rows in one of two forms. Where the weights are contiguous along
// what is added up (a Linear's are), a warp has a few columns, for all rows:
//
//   for %b in 0..192 parallel bind=block { for %w in 0..4 bind=warp {
//     %y0, ..., %y15 = for %t in 0..32 bind=thread reduce sum, ..., sum {
//       %s0, ... = for %k in 4*%t..768 step 128 unroll=3 reduce sum, ... { for %v in 0..4 vector reduce sum, ... {
//         %c0 = load %weights[6144*%b + 1536*%w + %k + %v]
//         %r0 = load %rows[%k + %v] ... yield %r0 * %c0, ...
//
// Where they are contiguous along the columns, a lane has a vector of these, and the threads of a block take turns
// at what is added up; what they found is joined in shared memory:
//
//   for %b in 0..48 parallel bind=block {
//     alloc %parts: f32[...] shared
//     for %w in 0..16 bind=warp { for %l in 0..32 bind=thread { for %v in 0..4 vector {
//       %s0, ... = for %k in 8*%w + %l/4..768 step 128 unroll=3 reduce sum, ... {
//         %c = load %weights[768*%k + 16*%b + 4*(%l%4) + %v] ...
//
// Rows are read from the nearest cache, by every thread anew, and that takes as long as reading the weights unless
// a thread has several columns.
#include "loops/schedule/gpu/product.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "loops/schedule/gpu/units.h"
#include "loops/schedule/statements.h"
#include "support/error.h"

namespace braze::loops {

using ir::Op;
using ir::Value;

namespace {

// Measured on an H100 beside cuBLAS, in products of 768 to 4,096 columns.
struct Limits {
  int64_t warps, lanes;  ///< Most rows, by form.
};
constexpr Limits of_f32 = {16, 8}, of_halves = {8, 2};  // which tensor cores multiply
constexpr int64_t most_sums = 32;                       ///< Of a thread: rows times columns.
constexpr int64_t most_products = 256;                  ///< In a loop's body.
constexpr int64_t most_columns = 2;                     ///< Of a warp,
constexpr int64_t least_columns = 8;                    ///< of a multiprocessor's warps.
constexpr int64_t least_lanes = 4, least_warps = 4, most_warps = 16;
constexpr int64_t line_lanes = 8;        ///< Vectors of a line of memory, in whole ones of which it is read best.
constexpr int64_t wanted_threads = 512;  ///< Of a multiprocessor.

bool is_read_by_lanes(const Window& weights) {
  return weights.strides[1] == 1 && weights.strides[0] != 1;
}

class ProductBuilder {
 public:
  ProductBuilder(const ir::Node& node, const Facts& facts)
      : node_(node),
        facts_(facts),
        draft_{std::make_unique<Kernel>(), {}, {}, 0, 0},
        kernel_(*draft_.kernel),
        extents_(kernel_, draft_.symbols, facts.rules()),
        limits_(facts.target(&node).gpu),
        rows_(facts.windows.of(node.operands[node.operands.size() - 2])),
        weights_(facts.windows.of(node.operands[node.operands.size() - 1])),
        to_(facts.windows.storage(&node.results[0])),
        count_(node.results[0].type->sizes.symbolic()[0].constant()),
        columns_(weights_.sizes[1]),
        length_(weights_.sizes[0]) {}

  KernelDraft build() {
    rows_buffer_ = buffer_of(rows_.base, Access::in);
    weights_buffer_ = buffer_of(weights_.base, Access::in);
    if (node_.op == Op::addmm) added_buffer_ = buffer_of(added().base, Access::in);
    result_buffer_ = buffer_of(&node_.results[0], Access::out);
    is_read_by_lanes(weights_) ? build_lanes() : build_warps();
    drop_unused_symbols(kernel_, draft_.symbols);
    for (const Value* operand : node_.operands)
      draft_.bytes_read += facts_.elements(operand) * ir::byte_size(operand->type->dtype);
    draft_.bytes_written = facts_.elements(&node_.results[0]) * ir::byte_size(node_.results[0].type->dtype);
    return std::move(draft_);
  }

 private:
  const Window& added() const { return facts_.windows.of(node_.operands[0]); }
  int64_t hint(Size size) const { return facts_.rules().hint(size); }
  bool divides(int64_t number, Size size) const { return facts_.rules().equal(mod(size, number), 0); }

  BufferId buffer_of(const Value* base, Access access) {
    for (size_t k = 0; k < draft_.parameters.size(); ++k)
      if (draft_.parameters[k].value == base) return static_cast<BufferId>(k);
    Buffer buffer;
    buffer.name = concat("v", kernel_.buffers.size());
    buffer.dtype = base->type->dtype;
    buffer.access = access;
    buffer.may_alias = false;  // the result is memory that nothing else in the launch uses
    buffer.alignment = facts_.windows.alignment(base);
    kernel_.buffers.push_back(std::move(buffer));
    draft_.parameters.push_back({base, 0});
    return static_cast<BufferId>(kernel_.buffers.size() - 1);
  }

  /// Elements along what is added up that a thread takes at once: a vector of memory where rows are contiguous.
  int64_t length_vector() const {
    if (rows_.strides[1] != 1) return 1;
    int64_t vector = facts_.target(&node_).vector_bytes / ir::byte_size(node_.results[0].type->dtype);
    while (vector > 1 && !divides(vector, length_)) vector /= 2;
    return vector;
  }

  /// Of a loop whose body computes `products` at a time: as many as hide the memory's latency, and no more code
  /// than compiles in a few milliseconds. A divisor of the number of steps leaves no rest.
  int32_t unroll(int64_t steps, int64_t products) const {
    const int64_t most = std::clamp<int64_t>(most_products / products, 1, limits_.loads_in_flight);
    int64_t best = most;
    while (best > 1 && steps % best != 0) --best;
    return static_cast<int32_t>(std::max<int64_t>(1, std::min(best > 1 ? best : most, steps)));
  }

  /// Of row `row`'s element `k`.
  Affine place_in_row(int64_t row, const Affine& k) {
    Affine place;
    place.offset = extents_.of(rows_.offset + rows_.strides[0] * row);
    extents_.add(place, rows_.strides[1], k);
    return place;
  }

  Affine place_of_weight(const Affine& k, const Affine& column) {
    Affine place;
    place.offset = extents_.of(weights_.offset);
    extents_.add(place, weights_.strides[0], k);
    extents_.add(place, weights_.strides[1], column);
    return place;
  }

  /// What an element of each row adds to each column.
  std::vector<std::vector<ValueId>> terms(Builder body, const Affine& k, const std::vector<Affine>& columns) {
    std::vector<ValueId> weights;
    for (const Affine& column : columns) weights.push_back(body.load(weights_buffer_, place_of_weight(k, column)));
    std::vector<std::vector<ValueId>> all;
    for (int64_t row = 0; row < count_; ++row) {
      const ValueId x = body.load(rows_buffer_, place_in_row(row, k));
      for (const ValueId weight : weights) all.push_back({body.compute(Op::mul, {x, weight})});
    }
    return all;
  }

  /// A loop that adds up what its body yields; returns its results.
  std::vector<std::vector<ValueId>> close_sums(Loop& loop, std::vector<std::vector<ValueId>> yielded) {
    std::vector<std::vector<ValueId>> results;
    for (std::vector<ValueId>& value : yielded) {
      Reduction& sum = loop.reductions.emplace_back();
      sum.combine = Combine::sum;
      sum.yielded = std::move(value);
      sum.results = {kernel_.add_value(DType::f32)};
      results.push_back(sum.results);
    }
    return results;
  }

  void store(Builder builder, const Affine& row, const Affine& column, ValueId sum) {
    if (node_.op == Op::addmm) {
      const Window& window = added();
      const size_t rank = window.sizes.size();
      Affine from;
      from.offset = extents_.of(window.offset);
      if (rank > 0 && window.sizes[rank - 1] != 1) extents_.add(from, window.strides[rank - 1], column);
      if (rank > 1 && window.sizes[0] != 1) extents_.add(from, window.strides[0], row);
      sum = builder.compute(Op::add, {sum, builder.load(added_buffer_, from)});
    }
    Affine place;
    extents_.add(place, to_[0], row);
    extents_.add(place, to_[1], column);
    builder.store(result_buffer_, place, sum);
  }

  // ---- a warp a few columns

  void build_warps() {
    const int64_t vector = length_vector();
    int64_t columns = most_columns;
    while (columns > 1 &&
           (count_ * columns > most_sums || hint(columns_) / columns < least_columns * limits_.multiprocessors))
      columns /= 2;
    const bool divided = divides(columns, columns_);
    const auto units = open_units(kernel_, extents_, limits_, ceil_div(columns_, columns), true);
    Builder outside(kernel_, units->body);
    // A column beyond the last is read as the last, and not stored.
    std::vector<Affine> places, read;
    std::vector<ValueId> guards;
    for (int64_t k = 0; k < columns; ++k) {
      Affine place = extents_.scaled(columns, units->number);
      place.offset.constant += k;
      const bool certain = divided || k == 0;
      guards.push_back(none);
      if (!certain) {
        const ValueId column = outside.affine(place), size = extents_.value(outside, columns_);
        guards.back() = outside.compute(Op::lt, {column, size});
        const ValueId last = extents_.value(outside, columns_ - 1);
        place = {};
        place.add(1, outside.compute(Op::minimum, {column, last}));
      }
      read.push_back(place);
      places.push_back(std::move(place));
    }
    auto threads = bound_loop(limits_.warp, Schedule::Bind::thread);
    Affine first;
    first.add(vector, threads->var);
    auto steps = std::make_unique<Loop>();
    steps->var = kernel_.add_value(DType::i64);
    steps->begin_value = Builder(kernel_, threads->body).affine(first);
    steps->end = extents_.of(length_);
    steps->step = vector * limits_.warp;
    steps->schedule.unroll = unroll(hint(length_) / steps->step, count_ * columns * vector);
    Affine k;
    k.add(1, steps->var);
    std::vector<std::vector<ValueId>> found;
    if (vector > 1) {
      auto lanes = std::make_unique<Loop>();
      lanes->var = kernel_.add_value(DType::i64);
      lanes->end = Extent(vector);
      lanes->schedule.vector = true;
      k.add(1, lanes->var);
      found = close_sums(*lanes, terms(Builder(kernel_, lanes->body), k, read));
      steps->body.push_back(as_statement(std::move(lanes)));
    } else {
      found = terms(Builder(kernel_, steps->body), k, read);
    }
    found = close_sums(*steps, std::move(found));
    threads->body.push_back(as_statement(std::move(steps)));
    found = close_sums(*threads, std::move(found));
    units->body.push_back(as_statement(std::move(threads)));
    for (size_t sum = 0; sum < found.size(); ++sum) {
      Affine row;
      row.offset = Extent(static_cast<int64_t>(sum) / columns);
      const size_t column = sum % static_cast<size_t>(columns);
      Block inside;
      store(Builder(kernel_, inside), row, places[column], found[sum][0]);
      close_guarded(units->body, guards[column], std::move(inside));
    }
    close_units(kernel_, *units);
  }

  // ---- a lane a few columns

  void build_lanes() {
    int64_t vector = facts_.target(&node_).vector_bytes / ir::byte_size(weights_.base->type->dtype);
    while (vector > 1 && (vector * count_ > most_sums || !divides(vector, columns_))) vector /= 2;
    int64_t lanes = limits_.warp;  // beside each other along the columns
    const auto blocks = [&] { return hint(columns_) / (lanes * vector); };
    while (lanes > line_lanes && blocks() < limits_.multiprocessors) lanes /= 2;
    while (lanes > least_lanes && blocks() < limits_.multiprocessors / 4) lanes /= 2;
    const int64_t groups = limits_.warp / lanes;  // along what is added up
    int64_t warps = least_warps;
    while (warps < most_warps && blocks() * warps * limits_.warp < limits_.multiprocessors * wanted_threads &&
           hint(length_) / (warps * groups) > limits_.loads_in_flight)
      warps *= 2;
    const int64_t tile = lanes * vector, parts = warps * groups;

    Loop block;
    block.var = kernel_.add_value(DType::i64);
    block.end = extents_.of(ceil_div(columns_, tile));
    block.schedule.parallel = true;
    block.schedule.bind = Schedule::Bind::block;
    const BufferId found =
        Builder(kernel_, block.body).alloc("parts", DType::f32, Extent(count_ * parts * tile), Space::shared);
    auto turn = bound_loop(warps, Schedule::Bind::warp);
    auto thread = bound_loop(limits_.warp, Schedule::Bind::thread);
    Affine number;
    number.add(1, thread->var);
    const std::vector<Size> sizes = {lanes, groups};
    const std::vector<Affine> split = take_apart(extents_, Builder(kernel_, thread->body), number, sizes);
    Affine column = extents_.scaled(vector, split[0]);
    column.add(tile, block.var);
    const ValueId guard = guard_of(thread->body, column, tile);
    Block guarded;
    auto together = std::make_unique<Loop>();
    together->var = kernel_.add_value(DType::i64);
    together->end = Extent(vector);
    together->schedule.vector = true;
    column.add(1, together->var);
    Affine first = split[1];
    first.add(groups, turn->var);
    auto steps = std::make_unique<Loop>();
    steps->var = kernel_.add_value(DType::i64);
    steps->begin_value = Builder(kernel_, guarded).affine(first);
    steps->end = extents_.of(length_);
    steps->step = parts;
    steps->schedule.unroll = unroll(hint(length_) / parts, count_ * vector);
    Affine k;
    k.add(1, steps->var);
    const auto sums = close_sums(*steps, terms(Builder(kernel_, steps->body), k, {column}));
    together->body.push_back(as_statement(std::move(steps)));
    for (int64_t row = 0; row < count_; ++row) {
      Affine place;
      place.add(vector * limits_.warp, turn->var);
      place.add(vector, thread->var);
      place.add(1, together->var);
      place.offset.constant += row * parts * tile;
      Builder(kernel_, together->body).store(found, place, sums[static_cast<size_t>(row)][0]);
    }
    guarded.push_back(as_statement(std::move(together)));
    close_guarded(thread->body, guard, std::move(guarded));
    turn->body.push_back(as_statement(std::move(thread)));
    block.body.push_back(as_statement(std::move(turn)));
    block.body.push_back(barrier());
    join_parts(block, found, tile, parts);
    kernel_.body.push_back(as_statement(std::make_unique<Loop>(std::move(block))));
  }

  /// A thread an element of the block's columns.
  void join_parts(Loop& block, BufferId found, int64_t tile, int64_t parts) {
    auto each = bound_loop(count_ * tile, Schedule::Bind::thread);
    Affine number;
    number.add(1, each->var);
    const std::vector<Size> sizes = {tile, count_};
    const std::vector<Affine> split = take_apart(extents_, Builder(kernel_, each->body), number, sizes);
    Affine column = split[0];
    column.add(tile, block.var);
    const ValueId guard = guard_of(each->body, column, tile);
    auto turns = std::make_unique<Loop>();
    turns->var = kernel_.add_value(DType::i64);
    turns->end = Extent(parts);
    turns->schedule.unroll = 2 * limits_.loads_in_flight;
    Affine place = split[0];
    extents_.add(place, parts * tile, split[1]);
    place.add(tile, turns->var);
    const ValueId part = Builder(kernel_, turns->body).load(found, place);
    const ValueId sum = close_sums(*turns, {{part}})[0][0];
    Block inside;
    inside.push_back(as_statement(std::move(turns)));
    store(Builder(kernel_, inside), split[1], column, sum);
    close_guarded(each->body, guard, std::move(inside));
    block.body.push_back(as_statement(std::move(each)));
  }

  std::unique_ptr<Loop> bound_loop(int64_t count, Schedule::Bind bind) {
    auto loop = std::make_unique<Loop>();
    loop->var = kernel_.add_value(DType::i64);
    loop->end = Extent(count);
    loop->schedule.bind = bind;
    return loop;
  }

  /// Whether a column of a tile is there; none where all are.
  ValueId guard_of(Block& block, const Affine& column, int64_t tile) {
    if (divides(tile, columns_)) return none;
    Builder builder(kernel_, block);
    return builder.compute(Op::lt, {builder.affine(column), extents_.value(builder, columns_)});
  }

  const ir::Node& node_;
  const Facts& facts_;
  KernelDraft draft_;
  Kernel& kernel_;
  Extents extents_;
  const GpuLimits& limits_;
  const Window &rows_, &weights_;
  const Sizes& to_;  ///< Strides of the result.
  int64_t count_;    ///< Rows.
  Size columns_, length_;
  BufferId rows_buffer_ = 0, weights_buffer_ = 0, added_buffer_ = 0, result_buffer_ = 0;
};

}  // namespace

bool is_product_of_few_rows(const ir::Node& node, const Facts& facts) {
  if (node.op != Op::mm && node.op != Op::addmm) return false;
  const ir::Type& type = *node.results[0].type;
  if (!facts.target(&node).is_gpu()) return false;
  if (type.dtype != DType::f32 && type.dtype != DType::bf16 && type.dtype != DType::f16) return false;
  if (node.op == Op::addmm && (node.double_attr("alpha", 1) != 1 || node.double_attr("beta", 1) != 1)) return false;
  const Size rows = type.sizes.symbolic()[0];
  const Limits& limits = type.dtype == DType::f32 ? of_f32 : of_halves;
  const bool lanes = is_read_by_lanes(facts.windows.of(node.operands[node.operands.size() - 1]));
  return rows.is_constant() && rows.constant() <= (lanes ? limits.lanes : limits.warps) &&
         std::ranges::none_of(node.operands,
                              [](const Value* operand) { return is_empty(operand->type->sizes.symbolic()); });
}

KernelDraft build_product(const ir::Node& node, const Facts& facts) {
  return ProductBuilder(node, facts).build();
}

}  // namespace braze::loops
