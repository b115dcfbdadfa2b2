// loops/copy.cpp: kernels that no group of nodes asks for: copies and scans.
#include <algorithm>

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
    value = graph.create(ir::Op::iota, {}, {}, shape);
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
  const DType type = ir::compute_dtype(result->type->dtype);
  const ValueId zero = outside.constant(type, ir::is_floating(type) ? Number::of(0) : Number::of_int(0));
  Loop& loop = outside.loop(0, sizes.empty() ? 1 : sizes[dim]);
  if (!sizes.empty()) move(dim, loop.var);
  Builder body(kernel, loop.body);
  Reduction running;
  running.combine = Combine::serial;
  running.init = {zero};
  running.state = {kernel.add_value(type)};
  const ValueId next = body.compute(ir::Op::add, {running.state[0], body.cast(body.load(0, load_index), type)});
  body.store(1, store_index, next);
  running.yielded = {next};
  running.results = {kernel.add_value(type)};
  loop.reductions.push_back(std::move(running));
  draft.bytes_read = scan->operands[0]->type->numel() * ir::byte_size(from.base->type->dtype);
  draft.bytes_written = result->type->numel() * ir::byte_size(result->type->dtype);
  return draft;
}

}  // namespace braze::loops
