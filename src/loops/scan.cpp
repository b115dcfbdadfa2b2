// loops/scan.cpp: running sums and the like along one axis.
#include <algorithm>
#include <limits>

#include "loops/nest_builder.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Below (sign -1) or above (+1) every number of `type`.
Number extreme(DType type, int sign) {
  if (ir::is_floating(type)) return Number::of(sign * std::numeric_limits<double>::infinity());
  if (type == DType::u8) return Number::of_int(sign < 0 ? 0 : 255);
  const auto largest = static_cast<int64_t>((uint64_t{1} << (8 * ir::byte_size(type) - 1)) - 1);
  return Number::of_int(sign < 0 ? -largest - 1 : largest);
}

/// The state of a scan before the first element.
Number first_state(ir::Op scan, DType type) {
  using ir::Op;
  switch (scan) {
    case Op::cumsum: return ir::round_to(Number::of_int(0), type);
    case Op::cumprod: return ir::round_to(Number::of_int(1), type);
    case Op::logcumsumexp:
    case Op::cummax:
    case Op::cumargmax: return extreme(type, -1);
    case Op::cummin:
    case Op::cumargmin: return extreme(type, 1);
    default: BRAZE_CHECK(false, ir::info(scan).name, " is no scan");
  }
}

/// Sums and products of f32 run in f64, as at::acc_type says for the CPU.
DType running_type(ir::Op scan, DType dtype) {
  const bool adds = scan == ir::Op::cumsum || scan == ir::Op::cumprod || scan == ir::Op::logcumsumexp;
  if (adds && dtype == DType::f32) return DType::f64;
  return dtype == DType::b8 ? DType::u8 : ir::compute_dtype(dtype);
}

/// log(exp(a) + exp(b)) from the larger one. NaN goes through; equal infinities are themselves.
ValueId log_add_exp(Builder& body, ValueId a, ValueId b) {
  using ir::Op;
  const ValueId larger = body.compute(Op::maximum, {a, b});
  const ValueId distance = body.compute(Op::abs, {body.compute(Op::sub, {a, b})});
  const ValueId more = body.compute(Op::log1p, {body.compute(Op::exp, {body.compute(Op::neg, {distance})})});
  const ValueId sum = body.compute(Op::add, {larger, more});
  const ValueId both = body.compute(Op::bitwise_and, {body.compute(Op::eq, {a, b}), body.compute(Op::isinf, {a})});
  return body.compute(Op::where, {both, a, sum});
}

/// The next state after `state` and element `value` number `index`: {running value}, or {value, its index}.
std::vector<ValueId> next_of(ir::Op scan, Builder& body, const std::vector<ValueId>& state, ValueId value,
                             ValueId index, DType type) {
  using ir::Op;
  switch (scan) {
    case Op::cumsum: return {body.compute(Op::add, {state[0], value})};
    case Op::cumprod: return {body.compute(Op::mul, {state[0], value})};
    case Op::logcumsumexp: return {log_add_exp(body, value, state[0])};
    default: break;
  }
  // The last of equals; once NaN, only another NaN is later. As ATen's cummax_helper_cpu.
  const bool most = scan == Op::cummax || scan == Op::cumargmax;
  ValueId takes = body.compute(most ? Op::ge : Op::le, {value, state[0]});
  if (ir::is_floating(type)) takes = body.compute(Op::bitwise_or, {takes, body.compute(Op::isnan, {value})});
  std::vector<ValueId> next{body.compute(Op::where, {takes, value, state[0]})};
  if (state.size() > 1) next.push_back(body.compute(Op::where, {takes, index, state[1]}));
  return next;
}

/// One kernel. The scanned dimension is a serial loop, inside of loops over all others; the innermost of these runs
/// over lanes if it lies inside of the scanned one. If not, some rows are scanned side by side, as a step of one
/// does not wait for the others.
class ScanBuilder {
 public:
  ScanBuilder(const ir::Node& node, const Facts& facts, KernelDraft& draft)
      : node_(node),
        from_(facts.windows.of(node.operands[0])),
        to_(facts.windows.storage(&node.results[0])),
        sizes_(node.results[0].type->sizes),
        dim_(sizes_.empty() ? 0 : static_cast<size_t>(node.int_attr("dim"))),
        kernel_(*draft.kernel),
        type_(running_type(node.op, from_.base->type->dtype)),
        target_(facts.target) {
    add_buffer(from_.base, "from", Access::in);
    add_buffer(&node.results[0], "to", Access::out);
    for (size_t k = 0; k < sizes_.size(); ++k)
      if (k != dim_ && sizes_[k] != 1) outer_.push_back(k);
  }

  void build() {
    Affine load, store;
    load.offset = Extent(from_.offset);
    left_ = node_.results[0].type->numel();
    if (outer_.empty()) return scan(Builder(kernel_, kernel_.body).loop(0, 1).body, {{load, store}});
    const bool lanes = outer_.back() > dim_;
    Block* block = &kernel_.body;
    for (const size_t k : outer_) {
      if (k == outer_.back() && !lanes) return add_rows(*block, load, store);
      Loop& loop = Builder(kernel_, *block).loop(0, sizes_[k], schedule_of(k, 1));
      load.add(from_.strides[k], loop.var);
      store.add(to_[k], loop.var);
      block = &loop.body;
    }
    scan(*block, {{load, store}});
  }

 private:
  struct Row {
    Affine load, store;  ///< Of its first element.
  };

  void add_buffer(const ir::Value* value, const char* name, Access access) {
    Buffer buffer;
    buffer.name = name;
    buffer.dtype = value->type->dtype;
    buffer.access = access;
    buffer.may_alias = false;
    buffer.alignment = ir::byte_size(buffer.dtype);
    kernel_.buffers.push_back(std::move(buffer));
  }

  /// Of the loop over dimension k, `rows` of which are an iteration.
  Schedule schedule_of(size_t k, int64_t rows) {
    const bool lanes = outer_.back() > dim_;
    const int64_t times_slower = lanes ? target_.cpu.running_lanes : target_.cpu.running_rows;
    Schedule schedule;
    left_ /= sizes_[k];
    schedule.vector = lanes && k == outer_.back();
    schedule.parallel = k == outer_.front();
    if (!schedule.parallel) return schedule;
    schedule.grain = std::max<int64_t>(1, target_.cpu.thread_work / times_slower / (left_ * rows));
    if (schedule.vector) schedule.grain = whole_lines(schedule.grain, target_);
    return schedule;
  }

  void add_rows(Block& block, const Affine& load, const Affine& store) {
    const size_t k = outer_.back();
    const int64_t count = sizes_[k], together = std::min(target_.cpu.rows_together, count),
                  whole = count - count % together;
    const Schedule schedule = schedule_of(k, together);
    const auto add = [&](int64_t begin, int64_t end, int64_t step) {
      Loop& loop = Builder(kernel_, block).loop(begin, end, schedule, step);
      std::vector<Row> rows(step, Row{load, store});
      for (int64_t i = 0; i < step; ++i) {
        rows[i].load.add(from_.strides[k], loop.var);
        rows[i].store.add(to_[k], loop.var);
        rows[i].load.offset.constant += i * from_.strides[k];
        rows[i].store.offset.constant += i * to_[k];
      }
      scan(loop.body, rows);
    };
    add(0, whole, together);
    if (whole < count) add(whole, count, 1);
  }

  void scan(Block& block, const std::vector<Row>& rows) {
    const bool with_index = node_.op == ir::Op::cumargmax || node_.op == ir::Op::cumargmin;
    const DType stored = ir::compute_dtype(node_.results[0].type->dtype);
    Builder outside(kernel_, block);
    std::vector<ValueId> first{outside.constant(type_, first_state(node_.op, type_))};
    if (with_index) first.push_back(outside.constant(DType::i64, Number::of_int(0)));
    Loop& loop = outside.loop(0, sizes_.empty() ? 1 : sizes_[dim_]);
    Builder body(kernel_, loop.body);
    for (const Row& row : rows) {
      Affine load = row.load, store = row.store;
      if (!sizes_.empty()) {
        load.add(from_.strides[dim_], loop.var);
        store.add(to_[dim_], loop.var);
      }
      Reduction running;
      running.combine = Combine::serial;
      running.init = first;
      for (const ValueId value : first) running.state.push_back(kernel_.add_value(kernel_.types[value]));
      const ValueId value = body.cast(body.load(0, load), type_);
      running.yielded = next_of(node_.op, body, running.state, value, loop.var, type_);
      body.store(1, store, body.cast(running.yielded.back(), stored));
      for (const ValueId next : running.yielded) running.results.push_back(kernel_.add_value(kernel_.types[next]));
      loop.reductions.push_back(std::move(running));
    }
  }

  const ir::Node& node_;
  const Window& from_;
  const std::vector<int64_t>& to_;  ///< Strides of the result.
  std::span<const int64_t> sizes_;
  size_t dim_;
  Kernel& kernel_;
  DType type_;
  const Target& target_;
  std::vector<size_t> outer_;  ///< The other dimensions, but for those of size 1.
  int64_t left_ = 1;           ///< Elements in an iteration of the loops so far.
};

}  // namespace

KernelDraft build_scan(const ir::Node* scan, const Facts& facts) {
  const ir::Value* result = &scan->results[0];
  const ir::Value* base = facts.windows.of(scan->operands[0]).base;
  KernelDraft draft{std::make_unique<Kernel>(), {{base, 0}, {result, 0}}, {}, 0, 0};
  ScanBuilder(*scan, facts, draft).build();
  draft.bytes_read = scan->operands[0]->type->numel() * ir::byte_size(base->type->dtype);
  draft.bytes_written = result->type->numel() * ir::byte_size(result->type->dtype);
  return draft;
}

}  // namespace braze::loops
