// Tensors put together from others: cat, stack, pad, repeat, flip, scatter of a slice.
#include <algorithm>

#include "capture/call.h"

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

/// As Tensor::suggest_memory_format, which also takes dimensions of size 1 into account.
c10::MemoryFormat suggested_format(const Operand& x) {
  if (c10::is_channels_last_strides_2d(x.sizes, x.strides)) return c10::MemoryFormat::ChannelsLast;
  if (c10::is_channels_last_strides_3d(x.sizes, x.strides)) return c10::MemoryFormat::ChannelsLast3d;
  return c10::MemoryFormat::Contiguous;
}

bool join(Call& call, std::span<const Operand> parts, std::span<ir::Value* const> values, int64_t dim,
          const Sizes& sizes) {
  const ScalarType dtype = promoted(parts);
  if (!is_native(dtype)) return false;
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

bool cat(Call& call, const RuleRow&) {
  auto parts = operands(call, 0);
  if (!parts) return false;
  // Empty one-dimensional tensors are skipped whatever the others' shape: kept from older times. Their dtype
  // counts.
  const auto skipped = [](const Operand& part) { return part.sizes.size() == 1 && part.sizes[0] == 0; };
  if (std::ranges::any_of(*parts, skipped)) return false;
  Sizes sizes = (*parts)[0].sizes;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(sizes.size()));
  if (!dim || sizes.empty()) return false;
  sizes[*dim] = 0;
  c10::SmallVector<ir::Value*, 8> values;
  for (const Operand& part : *parts) {
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
    values.push_back(call.node(Op::reshape, {part.value}, call.contiguous(part.dtype, row)));
    part.sizes = row;
    part.strides = contiguous(row);
  }
  row[*dim] = static_cast<int64_t>(parts->size());
  return join(call, *parts, {values.data(), values.size()}, *dim, row);
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
    sizes[dim] += low[dim] + high[dim];
    if (sizes[dim] < 0) return false;
  }
  if (std::ranges::all_of(pairs, [](int64_t pad) { return pad <= 0; }))
    return false;  // A crop: eager clones a view.
  return call.give(call.node(
      Op::pad, {x->value, call.graph().scalar(to_dtype(x->dtype), to_number(call.number(2), to_dtype(x->dtype)))},
      call.contiguous(x->dtype, sizes),
      {{"low", std::span<const int64_t>(low.data(), low.size())},
       {"high", std::span<const int64_t>(high.data(), high.size())}}));
}

/// repeat(self, repeats): reshape to [1, size] pairs, expand, reshape.
bool repeat(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  const Sizes repeats = call.ints(1);
  if (!x || x->is_number() || repeats.size() < x->sizes.size()) return false;
  const size_t added = repeats.size() - x->sizes.size();
  Sizes pairs, wide, sizes;
  for (size_t k = 0; k < repeats.size(); ++k) {
    const int64_t size = k < added ? 1 : x->sizes[k - added];
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
  Sizes dims;
  for (const int64_t given : call.ints(1)) {
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

/// slice_scatter(self, src, dim, start, end, step), and select_scatter(self, src, dim, index).
bool scatter(Call& call, const Operand& x, ir::Value* source, int64_t dim, int64_t start, int64_t step) {
  const ir::Type* type = call.type(x.dtype, x.sizes, preserved_strides(x.sizes, x.strides));
  return call.give(
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
  };
  return rows;
}

}  // namespace braze::capture
