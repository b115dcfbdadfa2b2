// Views: no node at all until the view is read (capture/memory.h).
#include <algorithm>

#include "capture/call.h"
#include "capture/index_map.h"
#include "capture/input_place.h"
#include "capture/window.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using Kind = ViewStep::Kind;

/// The viewed tensor: argument 0.
struct Viewed {
  const at::Tensor& tensor;
  ViewPtr view;
  DimsRef sizes, strides;
  int64_t rank;
};

std::optional<Viewed> viewed(Call& call) {
  const at::Tensor& tensor = call.tensor(0);
  if (!tensor.defined() || tensor.layout() != c10::kStrided) return std::nullopt;
  const ViewPtr& view = call.recorder.view_of(tensor);
  return Viewed{tensor, view, view->type->sizes, view->type->strides, tensor.dim()};
}

/// A view of the same elements' type. Of those that the graph has no operators for, a window on the root.
at::Tensor make(Call& call, const Viewed& x, ViewStep step, DimsRef sizes, DimsRef strides, Dim offset) {
  const ViewPtr view =
      window_like(x.view, call.recorder.type(x.view->dtype, x.tensor.device(), sizes, strides), offset);
  if (is_plain(*x.view)) {
    view->parent = x.view;
    view->step = std::move(step);
  }
  return call.recorder.wrap_view(view, x.tensor);
}

bool give(Call& call, const Viewed& x, ViewStep step, DimsRef sizes, DimsRef strides) {
  return call.give_tensor(make(call, x, std::move(step), sizes, strides, x.view->offset));
}

ViewStep step_of(Kind kind) {
  ViewStep step;
  step.kind = kind;
  return step;
}

bool same(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  return call.give_tensor(call.recorder.wrap_view(x->view, x->tensor));
}

bool reshape_to(Call& call, const Viewed& x, const Sizes& sizes, DimsRef strides) {
  ViewStep step = step_of(DimsRef(sizes) == x.sizes ? Kind::same : Kind::reshape);
  return give(call, x, std::move(step), sizes, strides);
}

/// view(self, size), and _reshape_alias(self, size, stride) as kWithStrides, which takes any strides.
constexpr int kWithStrides = 1;

bool view(Call& call, const RuleRow& row) {
  const auto x = viewed(call);
  if (!x) return false;
  const Sizes wanted = call.ints(1);
  const auto sizes = inferred_sizes(wanted, numel(x->sizes));
  const auto strides = sizes ? view_strides(x->sizes, x->strides, *sizes) : std::nullopt;
  if (!strides || (row.variant == kWithStrides && (*sizes != wanted || *strides != call.ints(2)))) return false;
  return reshape_to(call, *x, *sizes, *strides);
}

bool permute_by(Call& call, const Viewed& x, const Places& dims) {
  ViewStep step = step_of(Kind::permute);
  Sizes sizes, strides;
  for (const int64_t k : dims) {
    sizes.push_back(x.sizes[k]);
    strides.push_back(x.strides[k]);
  }
  step.dims = dims;
  return give(call, x, std::move(step), sizes, strides);
}

bool permute(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  Places dims;
  for (const int64_t given : call.places(1)) {
    const auto dim = wrap(given, x->rank);
    if (!dim || std::ranges::find(dims, *dim) != dims.end()) return false;
    dims.push_back(*dim);
  }
  return static_cast<int64_t>(dims.size()) == x->rank && permute_by(call, *x, dims);
}

bool exchange(Call& call, const Viewed& x, std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return false;
  if (x.rank == 0 || *a == *b) return give(call, x, step_of(Kind::same), x.sizes, x.strides);
  Places dims(x.rank);
  for (int64_t k = 0; k < x.rank; ++k) dims[k] = k;
  std::swap(dims[*a], dims[*b]);
  return permute_by(call, x, dims);
}

bool transpose(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  return x && exchange(call, *x, wrap(call.integer(1), x->rank), wrap(call.integer(2), x->rank));
}

bool t(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  return x && x->rank <= 2 && exchange(call, *x, 0, x->rank == 2 ? 1 : 0);
}

bool expand(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  Sizes sizes = call.ints(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  if (rank < x->rank) return false;
  Sizes strides(rank);
  for (int64_t k = rank; k-- > 0;) {
    const int64_t mine = k - (rank - x->rank);
    if (mine < 0) {
      if (sizes[k] < 0) return false;
      // As in inferExpandGeometry: the stride a dimension of size 1 would have there.
      strides[k] = sizes[k] == 1 && x->rank > 0 ? sizes[k + 1] * strides[k + 1] : Dim(0);
      continue;
    }
    if (sizes[k] == -1) sizes[k] = x->sizes[mine];
    if (sizes[k] != x->sizes[mine] && x->sizes[mine] != 1) return false;
    strides[k] = sizes[k] == x->sizes[mine] ? x->strides[mine] : Dim(0);
  }
  const Kind kind = DimsRef(sizes) == x->sizes ? Kind::same : Kind::expand;
  return give(call, *x, step_of(kind), sizes, strides);
}

bool unsqueeze(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  const auto dim = wrap(call.integer(1), x->rank + 1);
  if (!dim) return false;
  Sizes sizes(x->sizes.begin(), x->sizes.end()), strides(x->strides.begin(), x->strides.end());
  const Dim stride = *dim >= x->rank ? Dim(1) : sizes[*dim] * strides[*dim];
  sizes.insert(sizes.begin() + *dim, 1);
  strides.insert(strides.begin() + *dim, stride);
  return give(call, *x, step_of(Kind::reshape), sizes, strides);
}

bool squeeze(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  const bool all = call.arguments.size() - call.entry.outs == 1;
  c10::SmallVector<bool, 5> drop(std::max<int64_t>(x->rank, 1), all);
  if (!all)
    for (const int64_t given : call.ints(1)) {
      const auto dim = wrap(given, x->rank);
      if (!dim || drop[*dim]) return false;
      drop[*dim] = true;
    }
  Sizes sizes, strides;
  for (int64_t k = 0; k < x->rank; ++k) {
    if (drop[k] && x->sizes[k] == 1) continue;
    sizes.push_back(x->sizes[k]);
    strides.push_back(x->strides[k]);
  }
  return reshape_to(call, *x, sizes, strides);
}

/// Elements start, start + step, ... of `dim`, `size` of them.
at::Tensor slice_of(Call& call, const Viewed& x, int64_t dim, Dim start, Dim step, Dim size) {
  Sizes sizes(x.sizes.begin(), x.sizes.end()), strides(x.strides.begin(), x.strides.end());
  const Dim offset = x.view->offset + start * strides[dim];
  // Only what is known: a guard that a number is not 0 would keep the first of all rounds of a loop apart.
  const bool is_whole = step.is_surely(1) && (sizes[dim] - size).is_surely(0);
  ViewStep how = step_of(is_whole ? Kind::same : Kind::slice);
  how.dim = dim;
  how.start = start;
  how.step = step;
  sizes[dim] = size;
  strides[dim] *= step;
  return make(call, x, std::move(how), sizes, strides, offset);
}

bool slice(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank == 0) return false;
  const auto dim = wrap(call.integer(1), x->rank);
  const int64_t step = call.integer(4);
  if (!dim || step <= 0) return false;
  const Dim size = x->sizes[*dim];
  // Where a place lies is decided, with a guard, so that a slice has one form: x[:n] is not min(n, size) long.
  const auto clamped = [&](size_t i, Dim otherwise) {
    if (!call.has(i)) return otherwise;
    Dim place = call.dim(i);
    constexpr int64_t any_end = int64_t{1} << 61;  // What indexing says for an end that is left open.
    if (place.is_number() && static_cast<int64_t>(place) >= any_end) return size;
    if (place < 0) place += size;
    return place < 0 ? Dim(0) : place > size ? size : place;
  };
  const Dim start = clamped(2, 0), end = std::max(clamped(3, size), start);
  const Dim length = end - start;
  return call.give_tensor(slice_of(call, *x, *dim, start, step, step == 1 ? length : ceil_div(length, step)));
}

/// One element of `dim`, which is gone then: a slice and a reshape.
at::Tensor select_of(Call& call, const Viewed& x, int64_t dim, Dim index) {
  const at::Tensor one = slice_of(call, x, dim, index, 1, 1);
  const ViewPtr& view = as_tracer(one)->view();
  const Viewed sliced{one, view, view->type->sizes, view->type->strides, one.dim()};
  Sizes sizes(x.sizes.begin(), x.sizes.end()), strides(x.strides.begin(), x.strides.end());
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return make(call, sliced, step_of(Kind::reshape), sizes, strides, sliced.view->offset);
}

bool select(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank == 0) return false;
  const auto dim = wrap(call.integer(1), x->rank);
  if (!dim) return false;
  Dim index = call.dim(2);
  if (index < -x->sizes[*dim] || index >= x->sizes[*dim]) return false;
  if (index < 0) index += x->sizes[*dim];
  return call.give_tensor(select_of(call, *x, *dim, index));
}

bool mapped(Call& call, const Viewed& x, IndexMap map, DimsRef strides, Dim offset) {
  ViewStep step = step_of(Kind::index_map);
  step.origin = std::move(map.origin);
  step.map = std::move(map.map);
  return call.give_tensor(make(call, x, std::move(step), map.sizes, strides, offset));
}

/// diagonal(self, offset, dim1, dim2)
bool diagonal(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank < 2) return false;
  const auto dim1 = wrap(call.integer(2), x->rank), dim2 = wrap(call.integer(3), x->rank);
  if (!dim1 || !dim2 || *dim1 == *dim2) return false;
  IndexMap map = diagonal_map(x->sizes, call.dim(1), *dim1, *dim2);
  Sizes strides;
  for (int64_t k = 0; k < x->rank; ++k)
    if (k != *dim1 && k != *dim2) strides.push_back(x->strides[k]);
  strides.push_back(x->strides[*dim1] + x->strides[*dim2]);
  Dim offset = x->view->offset;
  if (map.sizes.back() > 0) offset += map.origin[*dim1] * x->strides[*dim1] + map.origin[*dim2] * x->strides[*dim2];
  return mapped(call, *x, std::move(map), strides, offset);
}

/// unfold(self, dimension, size, step): windows of `size` elements as a last dimension.
bool unfold(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank == 0) return false;
  const auto dim = wrap(call.integer(1), x->rank);
  const Dim size = call.dim(2), step = call.dim(3);
  if (!dim || size < 0 || size > x->sizes[*dim] || step < 1) return false;
  const auto rank = static_cast<size_t>(x->rank), at = static_cast<size_t>(*dim);
  IndexMap map{Sizes(rank, 0), std::vector<Dim>(rank * (rank + 1), 0), Sizes(x->sizes.begin(), x->sizes.end())};
  Sizes strides(x->strides.begin(), x->strides.end());
  for (size_t k = 0; k < rank; ++k) map.map[k * (rank + 1) + k] = k == at ? step : Dim(1);
  map.map[at * (rank + 1) + rank] = 1;
  map.sizes[at] = (x->sizes[at] - size) / step + 1;
  map.sizes.push_back(size);
  strides.push_back(strides[at]);
  strides[at] *= step;
  return mapped(call, *x, std::move(map), strides, x->view->offset);
}

/// narrow(self, dim, start, length)
bool narrow(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank == 0) return false;
  const auto dim = wrap(call.integer(1), x->rank);
  const Dim length = call.dim(3);
  if (!dim) return false;
  const Dim size = x->sizes[*dim], start = call.dim(2) < 0 ? call.dim(2) + size : call.dim(2);
  if (start < 0 || length < 0 || start + length > size) return false;
  return call.give_tensor(slice_of(call, *x, *dim, start, 1, length));
}

/// What an operator `NAME_copy` returns: a row-major copy of each view that `view` gives.
template <Rule view>
bool copied(Call& call, const RuleRow& row) {
  if (!view(call, row)) return false;
  const c10::IValue views = call.results[0].ready;
  call.results.clear();
  const auto copy = [&](const at::Tensor& tensor) {
    call.set_device(tensor.device());
    const ScalarType dtype = tensor.scalar_type();
    return laid_out(call.recorder, call.recorder.value_of(tensor), call.contiguous(dtype, dims_of(tensor)), dtype);
  };
  if (views.isTensor()) return call.give(copy(views.toTensor()));
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : views.toTensorVector())
    parts.push_back(call.recorder.wrap_fresh(copy(tensor), tensor.scalar_type(), tensor.device()));
  return call.give_tensor(c10::IValue(c10::List<at::Tensor>(at::ArrayRef<at::Tensor>(parts))));
}

bool give_list(Call& call, std::vector<at::Tensor> parts) {
  return call.give_tensor(c10::IValue(c10::List<at::Tensor>(at::ArrayRef<at::Tensor>(parts))));
}

bool unbind(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank == 0) return false;
  const auto dim = wrap(call.integer(1), x->rank);
  if (!dim) return false;
  std::vector<at::Tensor> parts;
  for (int64_t k = 0; k < x->sizes[*dim]; ++k) parts.push_back(select_of(call, *x, *dim, k));
  return give_list(call, std::move(parts));
}

bool split_into(Call& call, const Viewed& x, std::optional<int64_t> dim, const Sizes& parts) {
  if (!dim) return false;
  std::vector<at::Tensor> tensors;
  Dim start = 0;
  for (const Dim part : parts) {
    if (part < 0 || start + part > x.sizes[*dim]) return false;
    tensors.push_back(slice_of(call, x, *dim, start, 1, part));
    start += part;
  }
  return start == x.sizes[*dim] && give_list(call, std::move(tensors));
}

/// split(self, split_size, dim): pieces of one size, the last one smaller.
bool split(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x || x->rank == 0) return false;
  const auto dim = wrap(call.integer(2), x->rank);
  const Dim part = call.dim(1);
  if (!dim || part <= 0) return false;
  Sizes parts;
  Dim left = x->sizes[*dim];
  do {
    parts.push_back(std::min(part, left));
    left -= parts.back();
  } while (left > 0);
  return split_into(call, *x, dim, parts);
}

bool split_with_sizes(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  return x && x->rank > 0 && split_into(call, *x, wrap(call.integer(2), x->rank), call.ints(1));
}

/// as_strided(self, size, stride, storage_offset): whatever the memory holds there, counted from its start.
bool as_strided(Call& call, const RuleRow&) {
  const auto x = viewed(call);
  if (!x) return false;
  const Sizes sizes = call.ints(1), strides = call.ints(2);
  const auto negative = [](Dim n) { return n < 0; };
  if (sizes.size() != strides.size() || std::ranges::any_of(sizes, negative) ||
      std::ranges::any_of(strides, negative))
    return false;
  const Dim shift = x->view->offset - storage_offset(*x->view);
  const Dim offset = (call.has(3) ? call.dim(3) : storage_offset(*x->view)) + shift;
  const ir::Type* type = call.recorder.type(x->tensor.scalar_type(), x->tensor.device(), sizes, strides);
  const ViewPtr window = window_like(x->view, type, offset);
  if (!is_covered(*window))
    throw UserError(
        "braze: as_strided() reaches beyond the tensor that it was called on, or that tensor has gaps in "
        "memory, which cannot be traced. Call it on the whole tensor, or on a clone().");
  if (call.has(3)) call.recorder.depend_on_place(x->view, whole_place);
  return call.give_tensor(call.recorder.wrap_view(window, x->tensor));
}

/// A tensor that comes into the trace: one of torch.tensor(...) is nobody else's.
bool lift(Call& call, const RuleRow&) {
  const at::Tensor& tensor = call.tensor(0);
  if (as_tracer(tensor) || call.recorder.is_from_outside(tensor)) return call.give_tensor(tensor);
  call.set_device(tensor.device());
  return call.give_tensor(call.recorder.add_private_constant(tensor));
}

}  // namespace

std::span<const RuleRow> view_rules() {
  static constexpr RuleRow rows[] = {
      {"alias", same},
      {"detach", same},
      {"lift", lift},
      {"lift_fresh", lift},
      {"view", view},
      {"_reshape_alias", view, Op::input, kWithStrides},
      {"_unsafe_view", view},  // no alias by its schema, but operators write through it (kron with out=)
      {"permute", permute},
      {"transpose.int", transpose},
      {"t", t},
      {"expand", expand},
      {"unsqueeze", unsqueeze},
      {"squeeze", squeeze},
      {"squeeze.dim", squeeze},
      {"squeeze.dims", squeeze},
      {"slice.Tensor", slice},
      {"select.int", select},
      {"unbind.int", unbind},
      {"as_strided", as_strided},
      {"split.Tensor", split},
      {"split_with_sizes", split_with_sizes},
      {"diagonal", diagonal},
      {"unfold", unfold},
      {"alias_copy", copied<same>},
      {"detach_copy", copied<same>},
      {"view_copy", copied<view>},
      {"permute_copy", copied<permute>},
      {"transpose_copy.int", copied<transpose>},
      {"t_copy", copied<t>},
      {"expand_copy", copied<expand>},
      {"unsqueeze_copy", copied<unsqueeze>},
      {"squeeze_copy", copied<squeeze>},
      {"squeeze_copy.dim", copied<squeeze>},
      {"squeeze_copy.dims", copied<squeeze>},
      {"slice_copy.Tensor", copied<slice>},
      {"narrow_copy", copied<narrow>},
      {"select_copy.int", copied<select>},
      {"unbind_copy.int", copied<unbind>},
      {"as_strided_copy", copied<as_strided>},
      {"split_copy.Tensor", copied<split>},
      {"split_with_sizes_copy", copied<split_with_sizes>},
      {"diagonal_copy", copied<diagonal>},
      {"unfold_copy", copied<unfold>},
      // Views by what they do, although their schemas deny it.
      {"unsafe_split.Tensor", split},
      {"unsafe_split_with_sizes", split_with_sizes},
  };
  return rows;
}

}  // namespace braze::capture
