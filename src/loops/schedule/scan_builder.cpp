#include "loops/schedule/scan_builder.h"

#include <algorithm>
#include <limits>

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

/// Sums and products of f32 run in f64: at::acc_type says so of a CPU, and a GPU's kernels add up in a tree, where
/// these go along the row.
DType running_type(ir::Op scan, DType dtype, const Target& target) {
  const bool adds =
      scan == ir::Op::cumsum || scan == ir::Op::cumprod || (scan == ir::Op::logcumsumexp && !target.is_gpu());
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

}  // namespace

ScanBuilder::ScanBuilder(const ir::Node& node, const Facts& facts, KernelDraft& draft)
    : node_(node),
      from_(facts.windows.of(node.operands[0])),
      to_(facts.windows.storage(&node.results[0])),
      sizes_(node.results[0].type->sizes.symbolic()),
      dim_(sizes_.empty() ? 0 : static_cast<size_t>(node.int_attr("dim"))),
      kernel_(*draft.kernel),
      rules_(facts.rules()),
      extents_(kernel_, draft.symbols, rules_),
      target_(facts.target(&node)),
      type_(running_type(node.op, from_.base->type->dtype, facts.target(&node))) {
  add_buffer(from_.base, "from", Access::in);
  add_buffer(&node.results[0], "to", Access::out);
  for (size_t k = 0; k < sizes_.size(); ++k)
    if (k != dim_ && sizes_[k] != 1) outer_.push_back(k);
}

void ScanBuilder::add_buffer(const ir::Value* value, const char* name, Access access) {
  Buffer buffer;
  buffer.name = name;
  buffer.dtype = value->type->dtype;
  buffer.access = access;
  buffer.may_alias = false;
  buffer.alignment = ir::byte_size(buffer.dtype);
  kernel_.buffers.push_back(std::move(buffer));
}

ScanBuilder::Row ScanBuilder::first_row() {
  Row row;
  row.load.offset = extents_.of(from_.offset);
  return row;
}

void ScanBuilder::move(Row& row, size_t dim, const Affine& index) {
  extents_.add(row.load, from_.strides[dim], index);
  extents_.add(row.store, to_[dim], index);
}

void ScanBuilder::scan(Block& block, const std::vector<Row>& rows) {
  const bool with_index = node_.op == ir::Op::cumargmax || node_.op == ir::Op::cumargmin;
  const DType stored = ir::compute_dtype(node_.results[0].type->dtype);
  Builder outside(kernel_, block);
  std::vector<ValueId> first{outside.constant(type_, first_state(node_.op, type_))};
  if (with_index) first.push_back(outside.constant(DType::i64, Number::of_int(0)));
  Loop& loop = outside.loop(0, sizes_.empty() ? Extent(1) : extents_.of(sizes_[dim_]));
  Builder body(kernel_, loop.body);
  for (const Row& row : rows) {
    Affine load = row.load, store = row.store;
    if (!sizes_.empty()) {
      extents_.add(load, from_.strides[dim_], loop.var);
      extents_.add(store, to_[dim_], loop.var);
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

KernelDraft build_scan(const ir::Node* scan, const Facts& facts) {
  const ir::Value* result = &scan->results[0];
  const ir::Value* base = facts.windows.of(scan->operands[0]).base;
  KernelDraft draft{std::make_unique<Kernel>(), {{base, 0}, {result, 0}}, {}, 0, 0};
  (facts.target(scan).is_gpu() ? make_gpu_scan : make_cpu_scan)(*scan, facts, draft)->build();
  drop_unused_symbols(*draft.kernel, draft.symbols);
  draft.bytes_read = facts.elements(scan->operands[0]) * ir::byte_size(base->type->dtype);
  draft.bytes_written = facts.elements(result) * ir::byte_size(result->type->dtype);
  return draft;
}

}  // namespace braze::loops
