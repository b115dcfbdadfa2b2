// loops/copy.cpp: kernels that no group of nodes asks for: copies and scans.
#include <algorithm>
#include <limits>

#include "loops/nest_builder.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Moves every access to `buffer` by a constant.
void shift_accesses(Block& block, BufferId buffer, int64_t elements) {
  for (Stmt& stmt : block) {
    const bool accesses =
        stmt.kind == StmtKind::transpose
            ? stmt.sources[0] == buffer
            : (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) && stmt.buffer == buffer;
    if (accesses) stmt.index.offset.constant += elements;
    if (stmt.loop) shift_accesses(stmt.loop->body, buffer, elements);
  }
}

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

}  // namespace

KernelDraft build_copy(const Window& from, const Window& to, const LoweringOptions& options) {
  // A graph of one node, so that copies are scheduled like any other kernel.
  ir::Graph graph("copy");
  const ir::Type& type = *from.base->type;
  const ir::Type* shape = graph.type(type.dtype, type.device, from.sizes, ir::contiguous_strides(from.sizes));
  const ir::Value* source = from.base;
  ir::Value* value = nullptr;
  if (source->def->op == ir::Op::scalar) {
    value = graph.scalar(type.dtype, source->def->number_attr("value"), type.device);
    value = graph.create(ir::Op::expand, {value}, {}, shape);
  } else if (source->def->op == ir::Op::iota) {
    // The window itself says which of the numbers it shows.
    value = graph.create(ir::Op::iota, {}, {}, graph.type(type.dtype, type.device, type.sizes, type.strides));
    const int64_t origin[] = {from.offset};
    value = graph.create(ir::Op::index_map, {value},
                         {{"origin", std::span(origin)}, {"map", std::span<const int64_t>(from.strides)}}, shape);
  } else {
    value = graph.add_input("from", graph.type(type.dtype, type.device, from.sizes, from.strides),
                            ir::InputKind::argument);
  }
  ir::Value* copy = graph.create(ir::Op::cast, {value}, {}, shape);
  graph.outputs().push_back(copy);
  const Windows windows(graph);
  const Facts facts(graph, windows);
  std::vector<Unit> units = form_units(graph, facts, true);
  BRAZE_CHECK(units.size() == 1, "a copy is one kernel");
  NestBuilder builder(*units[0].group, facts, options);
  builder.store_as(to.strides);
  KernelDraft draft = builder.build();
  for (size_t k = 0; k < draft.parameters.size(); ++k) {
    KernelDraft::Parameter& parameter = draft.parameters[k];
    const bool stores = parameter.value == copy;
    const Window& window = stores ? to : from;
    parameter.value = window.base;
    shift_accesses(draft.kernel->body, static_cast<BufferId>(k), window.offset);
    const bool planned = ir::info(window.base->def->op).kind != ir::OpKind::Library;
    draft.kernel->buffers[k].alignment =
        stores && planned && window.offset == 0 ? 64 : ir::byte_size(window.base->type->dtype);
  }
  return draft;
}

KernelDraft build_scan(const ir::Node* scan, const Facts& facts) {
  const ir::Value* result = &scan->results[0];
  const Window& from = facts.windows.of(scan->operands[0]);
  const std::vector<int64_t>& to = facts.windows.storage(result);
  const auto sizes = result->type->sizes;
  const auto dim = static_cast<size_t>(sizes.empty() ? 0 : scan->int_attr("dim"));
  KernelDraft draft{std::make_unique<Kernel>(), {{from.base, 0}, {result, 0}}, {}, 0, 0};
  Kernel& kernel = *draft.kernel;
  for (const ir::Value* value : {from.base, result}) {
    Buffer buffer;
    buffer.name = value == result ? "to" : "from";
    buffer.dtype = value->type->dtype;
    buffer.access = value == result ? Access::out : Access::in;
    buffer.may_alias = false;
    buffer.alignment = ir::byte_size(buffer.dtype);
    kernel.buffers.push_back(std::move(buffer));
  }
  Affine load_index, store_index;
  load_index.offset = Extent(from.offset);
  auto move = [&](size_t k, ValueId value) {
    load_index.add(from.strides[k], value);
    store_index.add(to[k], value);
  };

  // Loops over all other dimensions, outermost first; the last dimension runs over lanes unless it is the scanned
  // one.
  Block* block = &kernel.body;
  bool top = true;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k == dim) continue;
    Schedule schedule;
    schedule.parallel = top;
    schedule.vector = k + 1 == sizes.size();
    Loop& loop = Builder(kernel, *block).loop(0, sizes[k], schedule);
    move(k, loop.var);
    block = &loop.body;
    top = false;
  }
  if (top) block = &Builder(kernel, *block).loop(0, 1).body;
  Builder outside(kernel, *block);
  const DType type = running_type(scan->op, from.base->type->dtype);
  const bool with_index = scan->op == ir::Op::cumargmax || scan->op == ir::Op::cumargmin;
  Reduction running;
  running.combine = Combine::serial;
  running.init = {outside.constant(type, first_state(scan->op, type))};
  running.state = {kernel.add_value(type)};
  if (with_index) {
    running.init.push_back(outside.constant(DType::i64, Number::of_int(0)));
    running.state.push_back(kernel.add_value(DType::i64));
  }
  Loop& loop = outside.loop(0, sizes.empty() ? 1 : sizes[dim]);
  if (!sizes.empty()) move(dim, loop.var);
  Builder body(kernel, loop.body);
  const ValueId value = body.cast(body.load(0, load_index), type);
  running.yielded = next_of(scan->op, body, running.state, value, loop.var, type);
  body.store(1, store_index, body.cast(running.yielded.back(), ir::compute_dtype(result->type->dtype)));
  for (const ValueId yielded : running.yielded) running.results.push_back(kernel.add_value(kernel.types[yielded]));
  loop.reductions.push_back(std::move(running));
  draft.bytes_read = scan->operands[0]->type->numel() * ir::byte_size(from.base->type->dtype);
  draft.bytes_written = result->type->numel() * ir::byte_size(result->type->dtype);
  return draft;
}

}  // namespace braze::loops
