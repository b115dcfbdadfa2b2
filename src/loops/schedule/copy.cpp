// loops/schedule/copy.cpp: copies, which no group of nodes asks for.
#include <algorithm>
#include <limits>

#include "loops/schedule/nest_builder.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Moves every access to `buffer`.
void shift_accesses(Extents& extents, Block& block, BufferId buffer, Size elements) {
  for (Stmt& stmt : block) {
    const bool accesses =
        stmt.kind == StmtKind::transpose
            ? stmt.sources[0] == buffer
            : (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) && stmt.buffer == buffer;
    if (accesses) extents.add_offset(stmt.index, elements);
    if (stmt.loop) shift_accesses(extents, stmt.loop->body, buffer, elements);
    shift_accesses(extents, stmt.body, buffer, elements);
  }
}

/// The last element of the base that the window shows has a number below 2^31.
bool is_narrow(const Window& window, const SizeRules& rules) {
  Size last = window.offset;
  for (size_t k = 0; k < window.sizes.size(); ++k)
    last = last + max(Size(0), (window.sizes[k] - 1) * window.strides[k]);
  return rules.at_most(last, std::numeric_limits<int32_t>::max());
}

}  // namespace

KernelDraft build_copy(const Window& from, const Window& to, const Targets& targets, const SizeRules& rules) {
  // A graph of one node, so that copies are scheduled like any other kernel.
  ir::Graph graph("copy");
  const ir::Type& type = *from.base->type;
  const ir::Type* shape = graph.symbolic_type(type.dtype, type.device, from.sizes,
                                              ir::contiguous_strides(std::span<const Size>(from.sizes)));
  const ir::Value* source = from.base;
  ir::Value* value = nullptr;
  if (source->def->op == ir::Op::scalar) {
    value = graph.scalar(type.dtype, source->def->number_attr("value"), type.device);
    value = graph.create(ir::Op::expand, {value}, {}, shape);
  } else if (source->def->op == ir::Op::size) {
    value = graph.create(ir::Op::size, {}, {{"of", source->def->size_attr("of")}}, source->type);
    value = graph.create(ir::Op::expand, {value}, {}, shape);
  } else if (source->def->op == ir::Op::iota) {
    // The window itself says which of the numbers it shows.
    value =
        graph.create(ir::Op::iota, {}, {},
                     graph.symbolic_type(type.dtype, type.device, type.sizes.symbolic(), type.strides.symbolic()));
    const Size origin[] = {from.offset};
    value = graph.create(ir::Op::index_map, {value},
                         {{"origin", std::span<const Size>(origin)}, {"map", std::span<const Size>(from.strides)}},
                         shape);
  } else {
    value = graph.add_input("from", graph.symbolic_type(type.dtype, type.device, from.sizes, from.strides),
                            ir::InputKind::argument);
  }
  ir::Value* copy = graph.create(ir::Op::cast, {value}, {}, shape);
  graph.outputs().push_back(copy);
  const Windows windows(graph, Layouts(graph, {}, rules), rules);
  const Facts facts(graph, windows, targets);
  std::vector<Unit> units = form_units(graph, facts, true);
  BRAZE_CHECK(units.size() == 1, "a copy is one kernel");
  const std::unique_ptr<NestBuilder> builder = make_builder(*units[0].group, facts);
  builder->store_as(to.strides);
  KernelDraft draft = builder->build();
  draft.kernel->narrow = draft.kernel->narrow && is_narrow(from, rules) && is_narrow(to, rules);
  Extents extents(*draft.kernel, draft.symbols, rules);
  for (size_t k = 0; k < draft.parameters.size(); ++k) {
    KernelDraft::Parameter& parameter = draft.parameters[k];
    const bool stores = parameter.value == copy;
    const Window& window = stores ? to : from;
    parameter.value = window.base;
    shift_accesses(extents, draft.kernel->body, static_cast<BufferId>(k), window.offset);
    const bool planned = ir::info(window.base->def->op).kind != ir::OpKind::Library;
    draft.kernel->buffers[k].alignment =
        stores && planned && window.offset == 0 ? planned_alignment : ir::byte_size(window.base->type->dtype);
  }
  return draft;
}

}  // namespace braze::loops
