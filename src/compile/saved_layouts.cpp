#include "compile/saved_layouts.h"

#include <algorithm>

#include "compile/convolution_layout.h"
#include "passes/uses.h"

namespace braze::driver {

namespace {

/// Kernels read any strides, also of slices, and these convolutions ask for theirs. Other calls look at eager's,
/// and so do other views.
bool takes_any_layout(const passes::Uses& uses, const ir::Value* value,
                      const loops::LayoutOverrides& convolutions) {
  return std::ranges::all_of(uses.readers(value), [&](const ir::Node* node) {
    if (node->op == ir::Op::slice) return takes_any_layout(uses, &node->results[0], convolutions);
    const ir::OpKind kind = ir::info(node->op).kind;
    return kind != ir::OpKind::View && (kind != ir::OpKind::Library || convolutions.contains(node));
  });
}

void lay_out(ir::Graph& graph, ir::Value* value, const loops::Sizes& strides) {
  const ir::Type& type = *value->type;
  value->type = graph.symbolic_type(type.dtype, type.device, type.sizes.symbolic(), strides);
}

}  // namespace

void lay_out_saved(const passes::Partition& parts, size_t results) {
  ir::Graph &forward = *parts.forward, &backward = *parts.backward;
  const loops::LayoutOverrides forwards = channels_last_convolutions(forward);
  if (forwards.empty()) return;
  const loops::LayoutOverrides backwards = channels_last_convolutions(backward);
  if (backwards.empty()) return;
  const passes::Uses given_to(forward), taken_by(backward);
  const std::span<ir::Value* const> outputs(forward.outputs());
  std::vector<ir::Value*> given, taken;
  for (size_t k = 0; k < parts.saved.size(); ++k) {
    const passes::Saved& saved = parts.saved[k];
    if (saved.kind != passes::Saved::Kind::output || saved.index < results) continue;
    ir::Value *from = outputs[saved.index], *to = backward.inputs()[k].value;
    const ir::OpKind kind = ir::info(from->def->op).kind;
    const bool is_seen = std::ranges::find(outputs.first(results), from) != outputs.begin() + results;
    if (is_seen || kind == ir::OpKind::View || kind == ir::OpKind::Source) continue;
    if (kind == ir::OpKind::Library && !forwards.contains(from->def)) continue;
    if (!takes_any_layout(given_to, from, forwards) || !takes_any_layout(taken_by, to, backwards)) continue;
    given.push_back(from);
    taken.push_back(to);
  }
  if (!channels_last_pays(forward, forwards, given) || !channels_last_pays(backward, backwards, taken)) return;
  const loops::Layouts layouts = loops::assign_layouts(forward, forwards, given);
  for (size_t k = 0; k < given.size(); ++k) {
    const loops::Sizes strides = layouts.of(given[k]);
    lay_out(forward, given[k], strides);
    lay_out(backward, taken[k], strides);
  }
}

}  // namespace braze::driver
