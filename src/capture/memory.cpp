#include "capture/memory.h"

#include <algorithm>
#include <numeric>

#include "capture/index_map.h"
#include "capture/recorder.h"
#include "capture/types.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using ir::Op;
using Kind = ViewStep::Kind;

/// Dimensions from the outermost in memory to the innermost, if the geometry fills its extent without gaps.
std::optional<c10::SmallVector<int64_t, 5>> dense_order(const ir::Type& type) {
  c10::SmallVector<int64_t, 5> order(type.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (type.numel() == 0) return order;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return type.strides[a] != type.strides[b] ? type.strides[a] > type.strides[b] : type.sizes[a] > type.sizes[b];
  });
  int64_t expected = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const int64_t size = type.sizes[order[k]];
    if (size == 1) continue;
    if (type.strides[order[k]] != expected) return std::nullopt;
    expected *= size;
  }
  return order;
}

bool is_identity(const c10::SmallVector<int64_t, 5>& order) {
  for (size_t k = 0; k < order.size(); ++k)
    if (order[k] != static_cast<int64_t>(k)) return false;
  return true;
}

/// The base's elements in the order of memory, one-dimensional.
ir::Value* flatten(Recorder& recorder, ir::Value* value) {
  ir::Graph& graph = recorder.graph();
  const ir::Type& type = *value->type;
  const auto order = dense_order(type);
  if (!order)
    throw UserError(
        "braze: a tensor that has gaps in memory was viewed with as_strided() or written through "
        "overlapping views, which cannot be traced. Call .contiguous() or .clone() first.");
  if (!is_identity(*order)) {
    c10::SmallVector<int64_t, 5> sizes, strides;
    for (const int64_t k : *order) {
      sizes.push_back(type.sizes[k]);
      strides.push_back(type.strides[k]);
    }
    const std::span<const int64_t> dims(order->data(), order->size());
    value = graph.create(
        Op::permute, {value}, {{"dims", dims}},
        graph.type(type.dtype, type.device, {sizes.data(), sizes.size()}, {strides.data(), strides.size()}));
  }
  if (type.rank() == 1) return value;
  const int64_t numel = type.numel();
  return graph.create(Op::reshape, {value}, {}, graph.contiguous_type(type.dtype, type.device, {&numel, 1}));
}

/// The reverse of flatten().
ir::Value* unflatten(Recorder& recorder, ir::Value* flat, const ir::Type* type) {
  ir::Graph& graph = recorder.graph();
  const auto order = dense_order(*type);
  if (is_identity(*order)) return type->rank() == 1 ? flat : graph.create(Op::reshape, {flat}, {}, type);
  c10::SmallVector<int64_t, 5> sizes, inverse(order->size());
  for (size_t k = 0; k < order->size(); ++k) {
    sizes.push_back(type->sizes[(*order)[k]]);
    inverse[(*order)[k]] = static_cast<int64_t>(k);
  }
  ir::Value* rows = graph.create(Op::reshape, {flat}, {},
                                 graph.contiguous_type(type->dtype, type->device, {sizes.data(), sizes.size()}));
  return graph.create(Op::permute, {rows}, {{"dims", std::span<const int64_t>(inverse.data(), inverse.size())}},
                      type);
}

IndexMap window_map(const View& view, const View& base) {
  return strided_map(to_ref(view.type->sizes), to_ref(view.type->strides), view.offset - base.offset);
}

IndexMap step_map(const View& view) {
  return {view.step.dims, view.step.map, Sizes(view.type->sizes.begin(), view.type->sizes.end())};
}

ir::Value* read_window(Recorder& recorder, View& view) {
  View& base = *view.memory->base;
  ir::Value* flat = flatten(recorder, read(recorder, base));
  if (ir::is_native(view.type->dtype))
    return read_through(recorder.graph(), flat, window_map(view, base), view.type);
  std::vector<c10::IValue> arguments{at::Tensor(), to_ref(view.type->sizes).vec(), to_ref(view.type->strides).vec(),
                                     view.offset - base.offset};
  // ATen gives a window onto the operand's memory; as a value of the graph it is a dense copy.
  const ir::Type& type = *view.type;
  return recorder.call_simple("aten::as_strided", {flat}, std::move(arguments),
                              recorder.graph().contiguous_type(type.dtype, type.device, type.sizes));
}

void write_window(Recorder& recorder, View& view, ir::Value* value) {
  View& base = *view.memory->base;
  ir::Value* flat = flatten(recorder, read(recorder, base));
  if (ir::is_native(view.type->dtype)) {
    ir::Value* changed = write_through(recorder.graph(), flat, window_map(view, base), value);
    return write(recorder, base, unflatten(recorder, changed, base.type));
  }
  std::vector<c10::IValue> arguments{at::Tensor(), at::Tensor(), to_ref(view.type->sizes).vec(),
                                     to_ref(view.type->strides).vec(), view.offset - base.offset};
  ir::Value* changed =
      recorder.call_simple("aten::as_strided_scatter", {flat, value}, std::move(arguments), flat->type);
  write(recorder, base, unflatten(recorder, changed, base.type));
}

bool covers(const View& base, int64_t low, int64_t high) {
  return low >= base.offset && high <= base.offset + extent(to_ref(base.type->sizes), to_ref(base.type->strides)) &&
         dense_order(*base.type);
}

/// Before the first write to memory that several graph inputs lie in: writes go to the one that holds the others.
void choose_base(Memory& memory) {
  int64_t low = INT64_MAX, high = 0;
  bool one_dtype = true;
  for (const ViewPtr& root : memory.roots) {
    low = std::min(low, root->offset);
    high = std::max(high, root->offset + extent(to_ref(root->type->sizes), to_ref(root->type->strides)));
    one_dtype &= root->type->dtype == memory.base->type->dtype;
  }
  const auto found = std::ranges::find_if(memory.roots, [&](const ViewPtr& r) { return covers(*r, low, high); });
  if (found == memory.roots.end() || !one_dtype)
    throw UserError(
        "braze: the traced function writes to a tensor that shares memory with another input, and neither "
        "holds the other whole. Pass one of them as a clone().");
  memory.base = found->get();
  for (const ViewPtr& root : memory.roots) {
    if (root.get() == memory.base) continue;
    root->parent = *found;
    root->step.kind = Kind::window;
  }
}

ir::Value* apply(Recorder& recorder, View& view, ir::Value* parent) {
  ir::Graph& graph = recorder.graph();
  const ViewStep& step = view.step;
  switch (step.kind) {
    case Kind::same: return parent;
    case Kind::permute:
      return graph.create(Op::permute, {parent}, {{"dims", std::span(step.dims.data(), step.dims.size())}},
                          view.type);
    case Kind::reshape: return graph.create(Op::reshape, {parent}, {}, view.type);
    case Kind::expand: return graph.create(Op::expand, {parent}, {}, view.type);
    case Kind::slice:
      return graph.create(Op::slice, {parent}, {{"dim", step.dim}, {"start", step.start}, {"step", step.step}},
                          view.type);
    case Kind::index_map: return read_through(graph, parent, step_map(view), view.type);
    case Kind::root:
    case Kind::window: break;
  }
  BRAZE_CHECK(false, "a view without a step");
}

/// The parent's new value when the view's is `value`.
ir::Value* unapply(Recorder& recorder, View& view, ir::Value* value) {
  ir::Graph& graph = recorder.graph();
  const ViewStep& step = view.step;
  const ir::Type* type = view.parent->type;
  switch (step.kind) {
    case Kind::same: return value;
    case Kind::permute: {
      c10::SmallVector<int64_t, 5> inverse(step.dims.size());
      for (size_t k = 0; k < step.dims.size(); ++k) inverse[step.dims[k]] = static_cast<int64_t>(k);
      return graph.create(Op::permute, {value}, {{"dims", std::span(inverse.data(), inverse.size())}}, type);
    }
    case Kind::reshape: return graph.create(Op::reshape, {value}, {}, type);
    case Kind::expand:
      TORCH_CHECK(view.type->numel() == type->numel(),
                  "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                  "location. Please clone() the tensor before performing the operation.");
      return graph.create(Op::reshape, {value}, {}, type);
    case Kind::slice:
      return graph.create(Op::slice_scatter, {read(recorder, *view.parent), value},
                          {{"dim", step.dim}, {"start", step.start}, {"step", step.step}}, type);
    case Kind::index_map: {
      ir::Value* changed = write_through(graph, read(recorder, *view.parent), step_map(view), value);
      return changed->type == type ? changed : graph.create(Op::cast, {changed}, {}, type);
    }
    case Kind::root:
    case Kind::window: break;
  }
  BRAZE_CHECK(false, "a view without a step");
}

/// Whether two elements of such a tensor may lie in one place: not if every stride steps over all smaller ones.
bool may_overlap(const ir::Type& type) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 5> steps;  // stride, size
  for (size_t k = 0; k < type.sizes.size(); ++k)
    if (type.sizes[k] > 1) steps.emplace_back(type.strides[k], type.sizes[k]);
  std::ranges::sort(steps);
  int64_t reached = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reached) return true;
    reached += stride * (size - 1);
  }
  return false;
}

/// Whether a view between this one and its memory repeats elements.
bool is_of_overlapping(const View& view) {
  for (const View* v = &view; v->parent && v->step.kind != Kind::window; v = v->parent.get())
    if (v->step.kind != Kind::same && may_overlap(*v->type)) return true;
  return false;
}

/// Whether the view itself does.
bool repeats(const View& view) {
  for (size_t k = 0; k < view.type->sizes.size(); ++k)
    if (view.type->sizes[k] > 1 && view.type->strides[k] == 0) return true;
  return false;
}

}  // namespace

c10::Storage make_empty_storage(int64_t bytes, c10::Device device) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       at::DataPtr(nullptr, device), nullptr, false);
  storage->set_throw_on_mutable_data_ptr();
  return c10::Storage(std::move(storage));
}

int64_t extent(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t last = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) return 0;
    last += (sizes[k] - 1) * strides[k];
  }
  return last + 1;
}

ir::Value* read(Recorder& recorder, View& view) {
  Memory& memory = *view.memory;
  if (view.value && view.version == memory.version) return view.value;
  if (&view == memory.base) {
    if (!view.value) view.value = memory.lazy();
  } else if (view.step.kind == Kind::window) {
    view.value = read_window(recorder, view);
  } else {
    BRAZE_CHECK(view.parent, "a root without a value");
    view.value = apply(recorder, view, read(recorder, *view.parent));
  }
  view.version = memory.version;
  return view.value;
}

void write(Recorder& recorder, View& view, ir::Value* value) {
  Memory& memory = *view.memory;
  BRAZE_CHECK(value->type->dtype == view.type->dtype && std::ranges::equal(value->type->sizes, view.type->sizes),
              "a write changes the type of a view");
  if (memory.untracked_alias)
    throw UserError(
        "braze: the traced function writes to a tensor that has a view of another dtype (view_as_real, "
        "view(dtype)). Take a clone() before one of the two.");
  if (memory.version == 0 && memory.roots.size() > 1) choose_base(memory);
  if (&view == memory.base) {
    if (value->type != view.type) value = recorder.graph().create(Op::cast, {value}, {}, view.type);
    view.value = value;
    view.version = ++memory.version;
    return;
  }
  // One row of an expanded tensor does not overlap itself, though the view that it was taken from does: written
  // through that one, the old values of the other rows would come back.
  const bool is_row = is_of_overlapping(view) && !repeats(view);
  const bool has_window = is_row && dense_order(*memory.base->type);
  if (is_row && !has_window)
    throw UserError(
        "braze: the traced function writes to a view of a view whose elements overlap (expand, unfold, "
        "as_strided), "
        "in memory with gaps. Take a clone() of the tensor below first.");
  if (view.step.kind == Kind::window || has_window)
    write_window(recorder, view, value);
  else
    write(recorder, *view.parent, unapply(recorder, view, value));
  view.value = value;
  view.version = memory.version;
}

ViewPtr window_of_base(Memory& memory, const ir::Type* type, int64_t offset) {
  const int64_t end = offset + extent(to_ref(type->sizes), to_ref(type->strides));
  if (!covers(*memory.base, offset, end) || memory.base->type->dtype != type->dtype) return nullptr;
  auto view = std::make_shared<View>();
  view->memory = &memory;
  view->type = type;
  view->offset = offset;
  view->step.kind = Kind::window;
  for (const ViewPtr& root : memory.roots)
    if (root.get() == memory.base) view->parent = root;
  return view;
}

}  // namespace braze::capture
