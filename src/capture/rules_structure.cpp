// Tensors put together from others: cat, stack, pad, repeat, flip, scatter of a slice.
#include <algorithm>

#include "capture/arithmetic.h"
#include "capture/index_map.h"
#include "capture/input_place.h"
#include "capture/window.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// The tensors of a list argument as operands.
std::optional<std::vector<Operand>> operands(Call& call, size_t i) {
  std::vector<Operand> list;
  for (const at::Tensor& tensor : call.arg(i).toTensorVector()) {
    auto operand = call.operand_of(tensor);
    if (!operand || operand->is_number()) return std::nullopt;
    list.push_back(std::move(*operand));
  }
  return list.empty() ? std::nullopt : std::optional(std::move(list));
}

bool join(Call& call, std::span<const Operand> parts, std::span<ir::Value* const> values, int64_t dim,
          const Sizes& sizes) {
  const ScalarType dtype = promoted(parts);
  if (!is_kernel_dtype(dtype)) return false;
  c10::MemoryFormat format = suggested_format(parts[0]);
  for (const Operand& part : parts)
    if (suggested_format(part) != format) format = c10::MemoryFormat::Contiguous;
  const Sizes strides = format_strides(sizes, format);
  c10::SmallVector<ir::Value*, 8> converted;
  for (ir::Value* value : values) converted.push_back(call.cast(value, to_dtype(dtype)));
  const ir::Attr attrs[] = {{"dim", dim}};
  const ir::Type* type = call.type(dtype, sizes, strides);
  return call.give(call.graph().create(Op::cat, {converted.data(), converted.size()}, attrs, {&type, 1})->result());
}

/// As at::assert_no_overlap.
void check_no_overlap(Call& call, const at::Tensor& read, const at::Tensor& written) {
  if (!written.defined()) return;
  const ViewPtr one = call.recorder.view_of(read), other = call.recorder.view_of(written);
  const auto end = [](const View& view) {
    return view.offset + extent(to_ref(view.type->sizes), to_ref(view.type->strides));
  };
  const auto dense = [](const View& view) {
    return is_dense(to_ref(view.type->sizes), to_ref(view.type->strides));
  };
  TORCH_CHECK(
      one != other && (one->memory != other->memory || !dense(*one) || !dense(*other) ||
                       one->offset >= end(*other) || other->offset >= end(*one)),
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
      "memory location. Please clone() the tensor before performing the operation.");
}

bool cat(Call& call, const RuleRow&) {
  auto parts = operands(call, 0);
  if (!parts) return false;
  if (call.entry.mode == OpEntry::Mode::out)
    for (const at::Tensor& part : call.arg(0).toTensorVector())
      check_no_overlap(call, part, call.arg(2).toTensor());
  // Empty one-dimensional tensors are skipped whatever the others' shape: kept from older times. Their dtype
  // counts.
  const auto skipped = [](const Operand& part) { return part.sizes.size() == 1 && part.sizes[0] == 0; };
  const auto shape = std::ranges::find_if_not(*parts, skipped);
  Sizes sizes = shape == parts->end() ? Sizes{0} : shape->sizes;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(sizes.size()));
  if (!dim || sizes.empty()) return false;
  sizes[*dim] = 0;
  c10::SmallVector<ir::Value*, 8> values;
  for (const Operand& part : *parts) {
    if (skipped(part) && sizes.size() != 1) continue;
    if (part.sizes.size() != sizes.size()) return false;
    for (size_t k = 0; k < sizes.size(); ++k)
      if (static_cast<int64_t>(k) != *dim && part.sizes[k] != sizes[k]) return false;
    sizes[*dim] += part.sizes[*dim];
    values.push_back(part.value);
  }
  return join(call, *parts, {values.data(), values.size()}, *dim, sizes);
}

bool stack(Call& call, const RuleRow&) {
  auto parts = operands(call, 0);
  if (!parts) return false;
  const Sizes shape = (*parts)[0].sizes;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(shape.size()) + 1);
  if (!dim) return false;
  Sizes row = shape;
  row.insert(row.begin() + *dim, 1);
  c10::SmallVector<ir::Value*, 8> values;
  for (Operand& part : *parts) {
    if (part.sizes != shape) return false;
    // Eager keeps the order of channels_last parts, by the dimension along which it stacks: ATen tells.
    if (suggested_format(part) != c10::MemoryFormat::Contiguous) return false;
    values.push_back(call.node(Op::reshape, {part.value}, call.contiguous(part.dtype, row)));
    part.sizes = row;
    part.strides = contiguous(row);
  }
  row[*dim] = static_cast<int64_t>(parts->size());
  return join(call, *parts, {values.data(), values.size()}, *dim, row);
}

/// A padding that adds nothing: eager clones the part that is left.
bool cropped(Call& call, const Operand& x, const Sizes& low, const Sizes& sizes) {
  ir::Value* part = x.value;
  Sizes left = x.sizes;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim].size() == left[dim].size()) continue;
    left[dim] = sizes[dim];
    part = call.node(Op::slice, {part}, call.type(x.dtype, left, x.strides),
                     {{"dim", static_cast<int64_t>(dim)}, {"start", (-low[dim]).size()}, {"step", int64_t{1}}});
  }
  return call.give(call.copy(part, call.type(x.dtype, sizes, preserved_strides(sizes, x.strides))));
}

/// Rows that nothing is cut off from, which are rows whether anything is added to them or not: nothing is asked of
/// how much that is.
bool only_adds_to_rows(const Operand& x, const Sizes& pads) {
  const auto is_known = [](Dim pad) {
    if (pad.is_number()) return static_cast<int64_t>(pad) >= 0;
    return SymbolsScope::current()->env->prove(ir::at_least(pad.size(), 0)).value_or(false);
  };
  return std::ranges::all_of(pads, is_known) && has_strides_of_rows(x.sizes, x.strides);
}

/// constant_pad_nd(self, pad, value): pairs of (low, high) from the last dimension on.
bool constant_pad(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  const Sizes pairs = call.ints(1);
  if (!x || x->is_number() || pairs.size() % 2 || pairs.size() / 2 > x->sizes.size() ||
      suggested_format(*x) != c10::MemoryFormat::Contiguous)
    return false;
  Sizes low(x->sizes.size(), 0), high = low, sizes = x->sizes;
  for (size_t k = 0; k < pairs.size() / 2; ++k) {
    const size_t dim = sizes.size() - 1 - k;
    low[dim] = pairs[2 * k];
    high[dim] = pairs[2 * k + 1];
    // What is cut off on one side must be there before the other is padded.
    if (sizes[dim] + smaller(low[dim], 0) + smaller(high[dim], 0) < 0) return false;
    sizes[dim] += low[dim] + high[dim];
  }
  const auto cuts = [](Dim pad) { return pad <= 0; };
  if (!only_adds_to_rows(*x, pairs) && std::ranges::all_of(pairs, cuts)) return cropped(call, *x, low, sizes);
  return call.give(call.node(
      Op::pad,
      {x->value, call.graph().scalar(to_dtype(x->dtype), to_number(call.number(2), to_dtype(x->dtype)),
                                     to_device(call.device()))},
      call.contiguous(x->dtype, sizes), {{"low", DimsRef(low).symbolic()}, {"high", DimsRef(high).symbolic()}}));
}

/// repeat(self, repeats): reshape to [1, size] pairs, expand, reshape.
bool repeat(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  const Sizes repeats = call.ints(1);
  if (!x || x->is_number() || repeats.size() < x->sizes.size()) return false;
  const size_t added = repeats.size() - x->sizes.size();
  Sizes pairs, wide, sizes;
  for (size_t k = 0; k < repeats.size(); ++k) {
    const Dim size = k < added ? Dim(1) : x->sizes[k - added];
    if (repeats[k] < 0) return false;
    pairs.append({1, size});
    wide.append({repeats[k], size});
    sizes.push_back(repeats[k] * size);
  }
  Sizes strides = contiguous(pairs);
  ir::Value* value = call.node(Op::reshape, {x->value}, call.type(x->dtype, pairs, strides));
  for (size_t k = 0; k < wide.size(); ++k)
    if (wide[k] != pairs[k]) strides[k] = 0;
  value = call.node(Op::expand, {value}, call.type(x->dtype, wide, strides));
  return call.give(call.node(Op::reshape, {value}, call.contiguous(x->dtype, sizes)));
}

bool flip(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || x->sizes.empty()) return false;
  Places dims;
  for (const int64_t given : call.places(1)) {
    const auto dim = wrap(given, static_cast<int64_t>(x->sizes.size()));
    if (!dim || std::ranges::find(dims, *dim) != dims.end()) return false;
    dims.push_back(*dim);
  }
  std::ranges::sort(dims);
  const ir::Type* type = call.type(x->dtype, x->sizes, preserved_strides(x->sizes, x->strides));
  if (dims.empty()) return call.give(call.copy(x->value, type));
  return call.give(
      call.node(Op::flip, {x->value}, type, {{"dims", std::span<const int64_t>(dims.data(), dims.size())}}));
}

/// Gives a scatter's result: eager clones the storage of self, with what lies before its elements and between
/// them, if they do not overlap.
bool give_scattered(Call& call, const Operand& x, ir::Value* value) {
  bool repeats = false;
  for (size_t k = 0; k < x.sizes.size(); ++k) repeats |= x.sizes[k] > 1 && x.strides[k] == 0;
  const int64_t offset = call.tensor(0).storage_offset();
  if (call.entry.mode != OpEntry::Mode::functional || repeats || (offset == 0 && is_dense(x.sizes, x.strides)))
    return call.give(value);
  return call.give_tensor(call.recorder.wrap_gapped(value, x.dtype, call.device(), x.sizes, x.strides, offset));
}

/// slice_scatter(self, src, dim, start, end, step), and select_scatter(self, src, dim, index).
bool scatter(Call& call, const Operand& x, ir::Value* source, int64_t dim, int64_t start, int64_t step) {
  const ir::Type* type = call.type(x.dtype, x.sizes, preserved_strides(x.sizes, x.strides));
  return give_scattered(
      call, x,
      call.node(Op::slice_scatter, {x.value, source}, type, {{"dim", dim}, {"start", start}, {"step", step}}));
}

bool slice_scatter(Call& call, const RuleRow&) {
  const auto x = call.operand(0), source = call.operand(1);
  if (!x || !source || x->is_number() || x->dtype != source->dtype || x->sizes.empty()) return false;
  const auto dim = wrap(call.integer(2), static_cast<int64_t>(x->sizes.size()));
  const int64_t step = call.integer(5);
  if (!dim || step <= 0) return false;
  const int64_t size = x->sizes[*dim];
  const auto clamped = [&](size_t i, int64_t otherwise) {
    int64_t place = call.has(i) ? call.integer(i) : otherwise;
    return std::clamp<int64_t>(place < 0 ? place + size : place, 0, size);
  };
  const int64_t start = clamped(3, 0), end = std::max(clamped(4, size), start);
  Sizes wanted = x->sizes;
  wanted[*dim] = (end - start + step - 1) / step;
  return wanted == source->sizes && scatter(call, *x, source->value, *dim, start, step);
}

bool select_scatter(Call& call, const RuleRow&) {
  const auto x = call.operand(0), source = call.operand(1);
  if (!x || !source || x->is_number() || x->dtype != source->dtype || x->sizes.empty()) return false;
  const auto dim = wrap(call.integer(2), static_cast<int64_t>(x->sizes.size()));
  if (!dim) return false;
  int64_t index = call.integer(3);
  if (index < 0) index += x->sizes[*dim];
  Sizes row = x->sizes, wanted = x->sizes;
  wanted.erase(wanted.begin() + *dim);
  row[*dim] = 1;
  if (index < 0 || index >= x->sizes[*dim] || wanted != source->sizes) return false;
  ir::Value* one = call.node(Op::reshape, {source->value}, call.contiguous(x->dtype, row));
  return scatter(call, *x, one, *dim, index, 1);
}

/// diagonal_scatter(self, src, offset, dim1, dim2)
bool diagonal_scatter(Call& call, const RuleRow&) {
  const auto x = call.operand(0), source = call.operand(1);
  if (!x || !source || x->is_number() || x->dtype != source->dtype || x->sizes.size() < 2) return false;
  const auto rank = static_cast<int64_t>(x->sizes.size());
  const auto dim1 = wrap(call.integer(3), rank), dim2 = wrap(call.integer(4), rank);
  if (!dim1 || !dim2 || *dim1 == *dim2) return false;
  const IndexMap map = diagonal_map(x->sizes, call.integer(2), *dim1, *dim2);
  if (map.sizes != source->sizes) return false;
  ir::Value* value = write_through(call.graph(), x->value, map, source->value);
  return give_scattered(call, *x,
                        call.copy(value, call.type(x->dtype, x->sizes, preserved_strides(x->sizes, x->strides))));
}

/// as_strided_scatter(self, src, size, stride, storage_offset): src written into a clone of self's storage, at
/// places that are counted from where that begins. A call could not tell where it began.
bool as_strided_scatter(Call& call, const RuleRow&) {
  const at::Tensor &self = call.tensor(0), &source = call.tensor(1);
  const Sizes sizes = call.ints(2), strides = call.ints(3);
  const int64_t begin = self.storage_offset(), offset = call.has(4) ? call.integer(4) : begin;
  const ScalarType dtype = self.scalar_type();
  const auto negative = [](int64_t n) { return n < 0; };
  if (source.scalar_type() != dtype || !(dims_of(source) == sizes) || sizes.size() != strides.size() ||
      offset < 0 || std::ranges::any_of(strides, negative))
    return false;
  Recorder& recorder = call.recorder;
  const ir::Type* type = recorder.view_of(self)->type;
  if (may_overlap(*type)) return false;
  call.set_device(self.device());
  ir::Value* value = recorder.value_of(self);
  const at::Tensor clone =
      begin == 0 && is_dense(self.sizes(), self.strides())
          ? recorder.wrap_fresh(laid_out(recorder, value, type, dtype), dtype, self.device())
          : recorder.wrap_gapped(value, dtype, self.device(), self.sizes(), self.strides(), begin);
  const ViewPtr window = window_like(recorder.view_of(clone), call.type(dtype, sizes, strides), offset);
  if (!is_covered(*window))
    throw UserError(
        "braze: as_strided_scatter() reaches beyond the tensor that it was called on, which cannot be traced. Call "
        "it on the whole tensor.");
  recorder.depend_on_place(recorder.view_of(self), whole_place);  // The result begins where it does, too.
  write(recorder, *window, recorder.value_of(source));
  if (call.entry.mode == OpEntry::Mode::functional) return call.give_tensor(clone);
  return is_kernel_dtype(dtype) && call.give(recorder.value_of(clone));
}

/// diag_embed(self, offset, dim1, dim2): the last dimension becomes a diagonal of two new ones.
bool diag_embed(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || x->sizes.empty()) return false;
  const int64_t offset = call.integer(1), rank = static_cast<int64_t>(x->sizes.size()) + 1;
  const auto dim1 = wrap(call.integer(2), rank), dim2 = wrap(call.integer(3), rank);
  if (!dim1 || !dim2 || *dim1 == *dim2) return false;
  Sizes sizes(x->sizes.begin(), x->sizes.end() - 1);
  const int64_t length = x->sizes.back() + std::abs(offset);
  sizes.insert(sizes.begin() + std::min(*dim1, *dim2), length);
  sizes.insert(sizes.begin() + std::max(*dim1, *dim2), length);
  Arithmetic a(call);
  ir::Value* zeros = a.expand(a.number(to_dtype(x->dtype), 0), sizes);
  ir::Value* value = write_through(call.graph(), zeros, diagonal_map(sizes, offset, *dim1, *dim2), x->value);
  return call.give(call.copy(value, call.contiguous(x->dtype, sizes)));
}

/// roll(self, shifts, dims): one cat of two parts a dimension.
bool roll(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  Sizes shifts = call.ints(1), dims = call.ints(2);
  if (!x || x->is_number() || shifts.empty() || is_empty(x->sizes)) return false;
  Arithmetic a(call);
  Operand whole = *x;
  if (dims.empty()) {
    if (shifts.size() != 1) return false;
    whole.sizes = {numel(x->sizes)};
    whole.strides = {1};
    whole.value = a.reshape(whole.value, whole.sizes);
    dims = {0};
  }
  if (dims.size() != shifts.size() || whole.sizes.empty()) return false;
  ir::Value* value = whole.value;
  for (size_t k = 0; k < dims.size(); ++k) {
    const auto dim = wrap(dims[k], static_cast<int64_t>(whole.sizes.size()));
    if (!dim) return false;
    const Dim size = whole.sizes[*dim];
    // A shift within the size needs no remainder.
    const bool within = shifts[k] >= 0 && shifts[k] < size;
    const Dim start = !within          ? Dim(((size - shifts[k]) % size + size) % size)
                      : shifts[k] == 0 ? Dim(0)
                                       : size - shifts[k];
    if (start == 0) continue;
    ir::Value* parts[] = {a.slice(value, *dim, start, size - start), a.slice(value, *dim, 0, start)};
    const ir::Attr attrs[] = {{"dim", *dim}};
    const ir::Type* type = call.contiguous(x->dtype, whole.sizes);
    value = call.graph().create(Op::cat, parts, attrs, {&type, 1})->result();
  }
  // Row-major on a GPU, whatever the argument is (roll_cuda in ATen/native/cuda/TensorTransformations.cu).
  const bool keeps = !call.ints(2).empty() && call.device().is_cpu();
  const auto format = keeps ? suggested_format(*x) : c10::MemoryFormat::Contiguous;
  return call.give(
      call.copy(a.reshape(value, x->sizes), call.type(x->dtype, x->sizes, format_strides(x->sizes, format))));
}

/// rot90(self, k, dims): a flip and a transposition.
bool rot90(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  const Sizes given = call.ints(2);
  if (!x || x->is_number() || given.size() != 2 || x->sizes.size() < 2) return false;
  const auto rank = static_cast<int64_t>(x->sizes.size());
  const auto one = wrap(given[0], rank), other = wrap(given[1], rank);
  if (!one || !other || *one == *other) return false;
  const int64_t turns = (call.integer(1) % 4 + 4) % 4;
  Arithmetic a(call);
  const Sizes strides = preserved_strides(x->sizes, x->strides);
  if (turns == 0) return call.give(call.copy(x->value, call.contiguous(x->dtype, x->sizes)));
  Sizes flipped = turns == 1 ? Sizes{*other} : turns == 3 ? Sizes{*one} : Sizes{*one, *other};
  std::ranges::sort(flipped);
  ir::Value* value = a.flip(x->value, flipped);
  if (turns == 2) return call.give(call.copy(value, call.type(x->dtype, x->sizes, strides)));
  Sizes order(rank), sizes = x->sizes, swapped = strides;
  for (int64_t k = 0; k < rank; ++k) order[k] = k;
  std::swap(order[*one], order[*other]);
  std::swap(sizes[*one], sizes[*other]);
  std::swap(swapped[*one], swapped[*other]);
  return call.give(call.copy(a.permute(value, order), call.type(x->dtype, sizes, swapped)));
}

/// block_diag(tensors): matrices along the diagonal of a larger one.
bool block_diag(Call& call, const RuleRow&) {
  const auto parts = operands(call, 0);
  if (!parts) return false;
  const ScalarType dtype = promoted(*parts);
  if (!is_kernel_dtype(dtype)) return false;
  int64_t height = 0, width = 0;
  std::vector<Sizes> shapes;
  for (const Operand& part : *parts) {
    if (part.sizes.size() > 2) return false;
    Sizes shape = part.sizes;
    shape.insert(shape.begin(), 2 - shape.size(), 1);
    height += shape[0];
    width += shape[1];
    shapes.push_back(std::move(shape));
  }
  Arithmetic a(call);
  c10::SmallVector<ir::Value*, 8> rows;
  int64_t left = 0;
  for (size_t k = 0; k < parts->size(); ++k) {
    ir::Value* block = call.cast(a.reshape((*parts)[k].value, shapes[k]), to_dtype(dtype));
    rows.push_back(a.pad(block, {0, left}, {0, width - left - shapes[k][1]}, 0));
    left += shapes[k][1];
  }
  const ir::Attr attrs[] = {{"dim", int64_t{0}}};
  const ir::Type* type = call.contiguous(dtype, {height, width});
  return call.give(call.graph().create(Op::cat, {rows.data(), rows.size()}, attrs, {&type, 1})->result());
}

/// Kernels of the CPU keep the format of their argument. Elsewhere the operator is made of views and a copy.
at::MemoryFormat shuffled_format(const Call& call, const Operand& x) {
  return call.device().is_cpu() ? suggested_format(x) : at::MemoryFormat::Contiguous;
}

/// pixel_shuffle(self, factor) moves channels into the last two dimensions, pixel_unshuffle back: the variant.
enum { kShuffle, kUnshuffle };
bool pixels(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  const int64_t factor = call.integer(1);
  if (!x || x->is_number() || x->sizes.size() < 3 || factor < 1) return false;
  const size_t lead = x->sizes.size() - 3;
  const Dim channels = x->sizes[lead], height = x->sizes[lead + 1], width = x->sizes[lead + 2];
  Sizes split(x->sizes.begin(), x->sizes.begin() + static_cast<int64_t>(lead)), sizes = split, order;
  for (size_t k = 0; k < lead; ++k) order.push_back(static_cast<int64_t>(k));
  const auto at = static_cast<int64_t>(lead);
  if (row.variant == kShuffle) {
    if (channels % (factor * factor) != 0) return false;
    split.append({channels / (factor * factor), factor, factor, height, width});
    order.append({at, at + 3, at + 1, at + 4, at + 2});
    sizes.append({channels / (factor * factor), height * factor, width * factor});
  } else {
    if (height % factor != 0 || width % factor != 0) return false;
    if (call.device().is_cpu() && is_empty(x->sizes))  // Eager's kernel gives it back as large as it is.
      return call.give(call.full(call.type(x->dtype, x->sizes, x->strides), 0));
    split.append({channels, height / factor, factor, width / factor, factor});
    order.append({at, at + 2, at + 4, at + 1, at + 3});
    sizes.append({channels * factor * factor, height / factor, width / factor});
  }
  Arithmetic a(call);
  ir::Value* value = a.reshape(a.permute(a.reshape(x->value, split), order), sizes);
  return call.give(call.copy(value, call.type(x->dtype, sizes, format_strides(sizes, shuffled_format(call, *x)))));
}

/// The dimensions from `first` on are one, without a copy.
bool is_one_dimension(const Operand& x, size_t first) {
  for (size_t k = first; k + 1 < x.sizes.size(); ++k)
    if (x.sizes[k] != 1 && x.strides[k] != x.strides[k + 1] * x.sizes[k + 1]) return false;
  return true;
}

/// channel_shuffle(self, groups): dimension 1 as [groups, rest], transposed. Eager views what a GPU has
/// (math_channel_shuffle in ATen/native/ChanelShuffle.cpp), and raises where it cannot.
bool channel_shuffle(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  const int64_t groups = call.integer(1);
  if (!x || x->is_number() || x->sizes.size() < 3 || groups < 1 || x->sizes[1] % groups != 0) return false;
  if (!call.device().is_cpu() && !is_one_dimension(*x, 2)) return false;
  Sizes split{x->sizes[0], groups, x->sizes[1] / groups}, order{0, 2, 1};
  for (size_t k = 2; k < x->sizes.size(); ++k) {
    split.push_back(x->sizes[k]);
    order.push_back(static_cast<int64_t>(k) + 1);
  }
  Arithmetic a(call);
  ir::Value* value = a.reshape(a.permute(a.reshape(x->value, split), order), x->sizes);
  const Sizes strides = format_strides(x->sizes, shuffled_format(call, *x));
  return call.give(call.copy(value, call.type(x->dtype, x->sizes, strides)));
}

}  // namespace

std::span<const RuleRow> structure_rules() {
  static constexpr RuleRow rows[] = {
      {"cat", cat},
      {"stack", stack},
      {"constant_pad_nd", constant_pad},
      {"repeat", repeat},
      {"flip", flip},
      {"slice_scatter", slice_scatter},
      {"select_scatter", select_scatter},
      {"diagonal_scatter", diagonal_scatter},
      {"as_strided_scatter", as_strided_scatter},
      {"diag_embed", diag_embed},
      {"roll", roll},
      {"rot90", rot90},
      {"block_diag", block_diag},
      {"pixel_shuffle", pixels, Op::permute, kShuffle},
      {"pixel_unshuffle", pixels, Op::permute, kUnshuffle},
      {"channel_shuffle", channel_shuffle},
      {"native_channel_shuffle", channel_shuffle},
  };
  return rows;
}

}  // namespace braze::capture
