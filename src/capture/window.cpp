#include "capture/window.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <numeric>

#include "capture/call.h"
#include "capture/index_map.h"
#include "capture/size_node.h"
#include "support/error.h"

namespace braze::capture {
namespace {

// ---- at run time

/// Where a window lies, as an operator of braze is told.
struct Place {
  c10::IntArrayRef sizes, strides;
  int64_t offset;  ///< In bytes from the base's first element.
  bool is_conj, is_neg;

  at::Tensor on(const at::Tensor& base, c10::ScalarType dtype) const {
    const auto options = at::TensorOptions().dtype(dtype).device(base.device());
    // Where nothing lies, a GPU's memory has no address.
    at::Tensor window =
        c10::multiply_integers(sizes) == 0
            ? at::empty_strided(sizes, strides, options)
            : at::from_blob(const_cast<char*>(static_cast<const char*>(base.const_data_ptr())) + offset, sizes,
                            strides, options);
    if (is_conj) window = at::_conj(window);
    return is_neg ? at::_neg_view(window) : window;
  }
};

at::Tensor read_bytes(const at::Tensor& base, c10::IntArrayRef layout, c10::ScalarType dtype,
                      c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, bool conj, bool neg) {
  const at::Tensor held = laid_out(base, layout);
  return Place{sizes, strides, offset, conj, neg}.on(held, dtype).clone();
}

at::Tensor write_bytes(const at::Tensor& base, const at::Tensor& value, c10::IntArrayRef layout,
                       c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, bool conj, bool neg) {
  at::Tensor held = laid_out(base, layout);
  if (held.is_same(base)) {
    held = at::empty_strided(base.sizes(), layout, base.options());
    // Gaps too: a window may lie across them.
    const auto span = static_cast<int64_t>(held.storage().nbytes() / held.itemsize());
    held.as_strided({span}, {1}, 0).copy_(base.as_strided({span}, {1}, base.storage_offset()));
  }
  Place{sizes, strides, offset, conj, neg}.on(held, value.scalar_type()).copy_(value);
  return held;
}

/// Memory of `length` elements, zeros but for those of `value` at these strides.
at::Tensor spread(const at::Tensor& value, c10::IntArrayRef strides, int64_t offset, int64_t length) {
  at::Tensor memory = at::zeros({length}, value.options());
  memory.as_strided(value.sizes(), strides, offset).copy_(value);
  return memory;
}

TORCH_LIBRARY_FRAGMENT(braze, library) {
  library.def(
      "read_bytes(Tensor base, int[] layout, ScalarType dtype, int[] size, int[] stride, int offset, bool conj, "
      "bool neg) -> Tensor",
      read_bytes);
  library.def(
      "write_bytes(Tensor base, Tensor value, int[] layout, int[] size, int[] stride, int offset, bool conj, "
      "bool neg) -> Tensor",
      write_bytes);
  library.def("spread(Tensor value, int[] stride, int offset, int length) -> Tensor", spread);
  library.def("lay_out(Tensor tensor, int[] stride) -> Tensor",
              [](const at::Tensor& tensor, c10::IntArrayRef stride) { return laid_out(tensor, stride); });
}

// ---- while tracing

bool is_identity(const Places& order) {
  for (size_t k = 0; k < order.size(); ++k)
    if (order[k] != static_cast<int64_t>(k)) return false;
  return true;
}

/// The base's elements in the order of memory, one-dimensional.
ir::Value* flatten(Recorder& recorder, ir::Value* value) {
  ir::Graph& graph = recorder.graph();
  const ir::Type& type = *value->type;
  const auto order = dense_order(type);
  if (!is_identity(*order)) {
    Sizes sizes, strides;
    const DimsRef from = type.sizes, steps = type.strides;
    for (const int64_t k : *order) {
      sizes.push_back(from[k]);
      strides.push_back(steps[k]);
    }
    const std::span<const int64_t> dims(order->data(), order->size());
    value = graph.create(Op::permute, {value}, {{"dims", dims}},
                         type_in(graph, type.dtype, type.device, sizes, strides));
  }
  if (type.rank() == 1) return value;
  return graph.create(Op::reshape, {value}, {}, rows_in(graph, type.dtype, type.device, {numel(type.sizes)}));
}

/// The reverse of flatten().
ir::Value* unflatten(Recorder& recorder, ir::Value* flat, const ir::Type* type) {
  ir::Graph& graph = recorder.graph();
  const auto order = dense_order(*type);
  if (is_identity(*order)) return type->rank() == 1 ? flat : graph.create(Op::reshape, {flat}, {}, type);
  Sizes sizes;
  Places inverse(order->size());
  const DimsRef from = type->sizes;
  for (size_t k = 0; k < order->size(); ++k) {
    sizes.push_back(from[(*order)[k]]);
    inverse[(*order)[k]] = static_cast<int64_t>(k);
  }
  ir::Value* rows = graph.create(Op::reshape, {flat}, {}, rows_in(graph, type->dtype, type->device, sizes));
  return graph.create(Op::permute, {rows}, {{"dims", std::span<const int64_t>(inverse.data(), inverse.size())}},
                      type);
}

IndexMap window_map(const View& view, const View& base) {
  return strided_map(to_ref(view.type->sizes), to_ref(view.type->strides), view.offset - base.offset);
}

/// As elements of the base, in the order of memory.
bool is_index_map(const View& window, const View& base) {
  return is_plain(window) && window.dtype == base.dtype && is_plain(base) && dense_order(*base.type);
}

Dim byte_offset(const View& window, const View& base) {
  return first_byte(window) - first_byte(base);
}

/// What call results of such a geometry are laid out as.
const ir::Type* dense_type(Recorder& recorder, const ir::Type& type) {
  const Sizes strides = preserved_strides(to_ref(type.sizes), to_ref(type.strides));
  return type_in(recorder.graph(), type.dtype, type.device, type.sizes, strides);
}

}  // namespace

c10::IValue as_argument(DimsRef dims) {
  if (dims.is_numbers()) return dims.vec();
  std::vector<c10::SymInt> sizes;
  for (const Dim dim : dims) sizes.push_back(to_sym_int(dim));
  return c10::SymIntArrayRef(sizes);
}

at::Tensor laid_out(const at::Tensor& tensor, c10::IntArrayRef strides) {
  if (tensor.strides() == strides) return tensor;
  at::Tensor made = at::empty_strided(tensor.sizes(), strides, tensor.options());
  // One of the elements that share a place is enough, and copy_() refuses more.
  at::Tensor to = made, from = tensor;
  for (int64_t k = 0; k < to.dim(); ++k) {
    if (strides[k] != 0 || to.size(k) < 2) continue;
    to = to.narrow(k, 0, 1);
    from = from.narrow(k, 0, 1);
  }
  to.copy_(from);
  return made;
}

ir::Value* laid_out(Recorder& recorder, ir::Value* value, const ir::Type* type, c10::ScalarType dtype) {
  if (value->type == type) return value;
  if (is_kernel_dtype(dtype)) return recorder.graph().create(Op::cast, {value}, {}, type);
  return recorder.call_simple("braze::lay_out", {value}, {at::Tensor(), as_argument(to_ref(type->strides))}, type);
}

ir::Value* read_window(Recorder& recorder, View& window) {
  View& base = const_cast<View&>(window_base(window));
  ir::Value* value = read(recorder, base);
  if (is_index_map(window, base))
    return read_through(recorder.graph(), flatten(recorder, value), window_map(window, base), window.type);
  std::vector<c10::IValue> arguments{at::Tensor(),
                                     as_argument(to_ref(base.type->strides)),
                                     window.dtype,
                                     as_argument(to_ref(window.type->sizes)),
                                     as_argument(to_ref(window.type->strides)),
                                     to_sym_int(byte_offset(window, base)),
                                     window.is_conj,
                                     window.is_neg};
  return recorder.call_simple("braze::read_bytes", {value}, std::move(arguments),
                              dense_type(recorder, *window.type));
}

void write_window(Recorder& recorder, View& window, ir::Value* value) {
  View& base = *window.memory->base;
  ir::Value* old = read(recorder, base);
  if (is_index_map(window, base)) {
    ir::Value* changed = write_through(recorder.graph(), flatten(recorder, old), window_map(window, base), value);
    return write(recorder, base, unflatten(recorder, changed, base.type));
  }
  // What ATen does not refuse (capture/overlap.h) depends on the order in which it writes.
  if (may_overlap(*window.type) && !is_empty(window.type->sizes)) refuse_repeated();
  std::vector<c10::IValue> arguments{at::Tensor(),
                                     at::Tensor(),
                                     as_argument(to_ref(base.type->strides)),
                                     as_argument(to_ref(window.type->sizes)),
                                     as_argument(to_ref(window.type->strides)),
                                     to_sym_int(byte_offset(window, base)),
                                     window.is_conj,
                                     window.is_neg};
  write(recorder, base, recorder.call_simple("braze::write_bytes", {old, value}, std::move(arguments), base.type));
}

}  // namespace braze::capture
