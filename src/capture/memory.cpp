#include "capture/memory.h"

#include <algorithm>
#include <numeric>

#include "capture/effect_times.h"
#include "capture/index_map.h"
#include "capture/memory_reads.h"
#include "capture/recorder.h"
#include "capture/shapes.h"
#include "capture/size_node.h"
#include "capture/types.h"
#include "capture/window.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using ir::Op;
using Kind = ViewStep::Kind;

IndexMap step_map(const View& view) {
  const DimsRef sizes = view.type->sizes;
  return {view.step.origin, view.step.map, Sizes(sizes.begin(), sizes.end())};
}

/// Bytes from `low` to `high` of the memory.
bool covers(const View& base, Dim low, Dim high) {
  return low >= first_byte(base) && high <= end_byte(base) && dense_order(*base.type);
}

/// Before the first write to memory that several graph inputs lie in: writes go to the one that holds the others.
void choose_base(Memory& memory) {
  Dim low = first_byte(*memory.roots[0]), high = end_byte(*memory.roots[0]);
  for (const ViewPtr& root : memory.roots) {
    low = std::min(low, first_byte(*root));
    high = std::max(high, end_byte(*root));
  }
  const auto found = std::ranges::find_if(memory.roots, [&](const ViewPtr& r) { return covers(*r, low, high); });
  if (found == memory.roots.end())
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
      return graph.create(Op::slice, {parent},
                          {{"dim", step.dim}, {"start", step.start.size()}, {"step", step.step.size()}}, view.type);
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
      Places inverse(step.dims.size());
      for (size_t k = 0; k < step.dims.size(); ++k) inverse[step.dims[k]] = static_cast<int64_t>(k);
      return graph.create(Op::permute, {value}, {{"dims", std::span(inverse.data(), inverse.size())}}, type);
    }
    case Kind::reshape: return graph.create(Op::reshape, {value}, {}, type);
    case Kind::expand:
      if (numel(view.type->sizes) != numel(type->sizes)) refuse_repeated();
      return graph.create(Op::reshape, {value}, {}, type);
    case Kind::slice:
      return graph.create(Op::slice_scatter, {read(recorder, *view.parent), value},
                          {{"dim", step.dim}, {"start", step.start.size()}, {"step", step.step.size()}}, type);
    case Kind::index_map: {
      ir::Value* changed = write_through(graph, read(recorder, *view.parent), step_map(view), value);
      return changed->type == type ? changed : graph.create(Op::cast, {changed}, {}, type);
    }
    case Kind::root:
    case Kind::window: break;
  }
  BRAZE_CHECK(false, "a view without a step");
}

/// Whether a view between this one and its memory repeats elements.
bool is_of_overlapping(const View& view) {
  for (const View* v = &view; v->parent; v = v->parent.get()) {
    if (v->step.kind != Kind::same && may_overlap(*v->type)) return true;
    if (v->step.kind == Kind::window) return false;  // It is a place in the memory itself.
  }
  return false;
}

/// Whether the view itself does.
bool repeats(const View& view) {
  const DimsRef sizes = view.type->sizes, strides = view.type->strides;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] > 1 && strides[k] == 0) return true;
  return false;
}

}  // namespace

void refuse_repeated() {
  throw UserError(
      "braze: the traced function writes to an expanded tensor, of which several elements lie in a single memory "
      "location; this cannot be traced. Please clone() it before.");
}

Dim first_byte(const View& view) {
  return view.offset * static_cast<int64_t>(c10::elementSize(view.dtype));
}

Dim end_byte(const View& view) {
  const Dim elements = extent(to_ref(view.type->sizes), to_ref(view.type->strides));
  return first_byte(view) + elements * static_cast<int64_t>(c10::elementSize(view.dtype));
}

Dim storage_offset(const View& view) {
  return view.offset - view.origin / static_cast<int64_t>(c10::elementSize(view.dtype));
}

bool is_plain(const View& view) {
  return is_kernel_dtype(view.dtype) && !view.is_neg && !view.is_conj;
}

std::optional<Places> dense_order(const ir::Type& type) {
  const DimsRef sizes = type.sizes, strides = type.strides;
  Places order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (is_empty(sizes)) return order;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : sizes[a] > sizes[b];
  });
  Dim expected = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const Dim size = sizes[order[k]];
    if (size == 1) continue;
    if (strides[order[k]] != expected) return std::nullopt;
    expected *= size;
  }
  return order;
}

ViewPtr root_of(const ViewPtr& view) {
  ViewPtr root = view;
  while (root->parent) root = root->parent;
  return root;
}

bool may_overlap(const ir::Type& type) {
  const DimsRef sizes = type.sizes, strides = type.strides;
  c10::SmallVector<std::pair<Dim, Dim>, 5> steps;  // stride, size
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] > 1) steps.emplace_back(strides[k], sizes[k]);
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
  Dim reached = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reached) return true;
    reached += stride * (size - 1);
  }
  return false;
}

c10::Storage make_empty_storage(Dim bytes, c10::Device device) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), to_sym_int(bytes),
                                                       at::DataPtr(nullptr, device), nullptr, false);
  storage->set_throw_on_mutable_data_ptr();
  return c10::Storage(std::move(storage));
}

Dim extent(DimsRef sizes, DimsRef strides) {
  Dim last = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) return 0;
    last += (sizes[k] - 1) * strides[k];
  }
  return last + 1;
}

namespace {

ir::Value* present(Recorder& recorder, View& view) {
  Memory& memory = *view.memory;
  if (view.value && view.version == memory.version) return view.value;
  if (&view == memory.base) {
    if (!view.value) view.value = memory.lazy();
  } else if (view.step.kind == Kind::window) {
    view.value = read_window(recorder, view);
  } else {
    BRAZE_CHECK(view.parent, "a root without a value");
    view.value = apply(recorder, view, present(recorder, *view.parent));
  }
  view.version = memory.version;
  return view.value;
}

}  // namespace

ir::Value* read(Recorder& recorder, View& view) {
  ir::Value* const value = present(recorder, view);
  if (MemoryReads* const reads = MemoryReads::current()) reads->note(*view.memory, value);
  return value;
}

void write(Recorder& recorder, View& view, ir::Value* value) {
  Memory& memory = *view.memory;
  BRAZE_CHECK(value->type->dtype == view.type->dtype, "a write changes the type of a view");
  if (!(to_ref(value->type->sizes) == to_ref(view.type->sizes)))
    throw UserError(
        "braze: an operator resizes a tensor that it writes, which cannot be traced. Pass one of the right size.");
  if (view.input >= 0 && repeats(view)) refuse_repeated();
  if (memory.version == 0 && memory.roots.size() > 1) choose_base(memory);
  if (&view == memory.base) {
    view.value = laid_out(recorder, value, view.type, view.dtype);
    view.version = ++memory.version;
    if (EffectTimes* const times = EffectTimes::current(); times && view.input >= 0) times->note_effect();
    return;
  }
  // One row of an expanded tensor does not overlap itself, though the view that it was taken from does: written
  // through that one, the old values of the other rows would come back.
  const bool is_row = is_of_overlapping(view) && !repeats(view);
  // So they would where the memory is known as the value of a tensor that overlaps.
  if (may_overlap(*memory.base->type)) refuse_repeated();
  if (view.step.kind == Kind::window || is_row)
    write_window(recorder, view, value);
  else
    write(recorder, *view.parent, unapply(recorder, view, value));
  view.value = value;
  view.version = memory.version;
}

ViewPtr window_like(const ViewPtr& like, const ir::Type* type, Dim offset) {
  auto view = std::make_shared<View>();
  view->memory = like->memory;
  view->parent = root_of(like);
  view->step.kind = Kind::window;
  view->type = type;
  view->dtype = like->dtype;
  view->is_conj = like->is_conj;
  view->is_neg = like->is_neg;
  view->offset = offset;
  view->origin = like->origin;
  return view;
}

bool is_covered(const View& window) {
  const View& base = window_base(window);
  return first_byte(window) >= first_byte(base) && end_byte(window) <= end_byte(base) && dense_order(*base.type);
}

const View& window_base(const View& window) {
  const Memory& memory = *window.memory;
  return memory.version > 0 || !window.parent ? *memory.base : *window.parent;
}

}  // namespace braze::capture
