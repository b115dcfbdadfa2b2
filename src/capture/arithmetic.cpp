#include "capture/arithmetic.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {

namespace {

Sizes sizes_of(const ir::Value* value) {
  const DimsRef sizes = value->type->sizes;
  return {sizes.begin(), sizes.end()};
}

/// Source: is_channels_last_strides_2d and its like in c10/core/MemoryFormat.h.
bool is_channels_last(DimsRef sizes, DimsRef strides, size_t rank) {
  if (sizes.size() != rank || strides[1] == 0) return false;
  Dim least = 0;
  for (size_t i = 0; i < rank; ++i) {
    const size_t k = i == 0 ? 1 : i + 1 < rank ? rank - i : 0;  // Channels, then from the last dimension on.
    if (sizes[k] == 0 || strides[k] < least) return false;
    // The batch's stride would be ambiguous where channels lie in rows.
    if (k == 0 && least == strides[1]) return false;
    least = sizes[k] > 1 ? strides[k] * sizes[k] : strides[k];
  }
  return true;
}

/// A constant is where the values are that meet it.
ir::Value* constant_of(Call& call, const at::Tensor& real) {
  at::Tensor moved = real;
  if (!call.device().is_cpu()) {
    const RunForReal outside_of_the_trace;
    moved = real.to(call.device());
  }
  return call.recorder.value_of(call.recorder.add_private_constant(moved));
}

}  // namespace

const ir::Type* Arithmetic::rows(DType dtype, DimsRef sizes) {
  return call_.contiguous(to_scalar_type(dtype), sizes);
}

ir::Value* Arithmetic::op(Op op, ir::Value* a) {
  const bool tests = ir::info(op).kind == ir::OpKind::UnaryTest;
  return call_.node(op, {a}, rows(tests ? DType::b8 : a->type->dtype, to_ref(a->type->sizes)));
}

ir::Value* Arithmetic::op(Op op, ir::Value* a, ir::Value* b) {
  Sizes sizes = sizes_of(a);
  BRAZE_CHECK(broadcast_into(sizes, to_ref(b->type->sizes)), "operands of a rule's own do not broadcast");
  const bool compares = ir::info(op).kind == ir::OpKind::Compare;
  return call_.node(op, {a, b}, rows(compares ? DType::b8 : a->type->dtype, sizes));
}

ir::Value* Arithmetic::where(ir::Value* condition, ir::Value* a, ir::Value* b) {
  Sizes sizes = sizes_of(condition);
  const bool fit = broadcast_into(sizes, to_ref(a->type->sizes)) && broadcast_into(sizes, to_ref(b->type->sizes));
  BRAZE_CHECK(fit, "operands of a rule's own do not broadcast");
  return call_.node(Op::where, {condition, a, b}, rows(a->type->dtype, sizes));
}

ir::Value* Arithmetic::number(DType dtype, const c10::Scalar& number) {
  return call_.scalar(to_scalar_type(dtype), number);
}

ir::Value* Arithmetic::reduce(Op op, ir::Value* value, DimsRef dims) {
  Sizes sizes;
  const DimsRef all = value->type->sizes;
  for (size_t k = 0; k < all.size(); ++k)
    if (std::find(dims.begin(), dims.end(), Dim(k)) == dims.end()) sizes.push_back(all[k]);
  const bool gives_index = op == Op::argmax || op == Op::argmin;
  return call_.node(op, {value}, rows(gives_index ? DType::i64 : value->type->dtype, sizes),
                    {{"dims", to_span(dims.numbers())}, {"keepdim", false}});
}

ir::Value* Arithmetic::reshape(ir::Value* value, DimsRef sizes) {
  if (to_ref(value->type->sizes) == sizes) return value;
  return call_.node(Op::reshape, {value}, rows(value->type->dtype, sizes));
}

ir::Value* Arithmetic::permute(ir::Value* value, DimsRef dims) {
  Sizes sizes;
  const DimsRef all = value->type->sizes;
  for (const int64_t dim : dims) sizes.push_back(all[dim]);
  return call_.node(Op::permute, {value}, rows(value->type->dtype, sizes), {{"dims", to_span(dims.numbers())}});
}

ir::Value* Arithmetic::channels_behind(ir::Value* value) {
  const auto rank = static_cast<int64_t>(value->type->sizes.size());
  Sizes dims{0};
  for (int64_t k = 2; k < rank; ++k) dims.push_back(k);
  dims.push_back(1);
  return permute(value, dims);
}

ir::Value* Arithmetic::channels_in_front(ir::Value* value) {
  const auto rank = static_cast<int64_t>(value->type->sizes.size());
  Sizes dims{0, rank - 1};
  for (int64_t k = 1; k + 1 < rank; ++k) dims.push_back(k);
  return permute(value, dims);
}

ir::Value* Arithmetic::expand(ir::Value* value, DimsRef sizes) {
  if (to_ref(value->type->sizes) == sizes) return value;
  return call_.node(Op::expand, {value}, rows(value->type->dtype, sizes));
}

ir::Value* Arithmetic::slice(ir::Value* value, int64_t dim, Dim start, Dim size) {
  Sizes sizes = sizes_of(value);
  if (start == 0 && sizes[dim] == size) return value;
  sizes[dim] = size;
  return call_.node(Op::slice, {value}, rows(value->type->dtype, sizes),
                    {{"dim", dim}, {"start", start.size()}, {"step", int64_t{1}}});
}

ir::Value* Arithmetic::flip(ir::Value* value, DimsRef dims) {
  return call_.node(Op::flip, {value}, rows(value->type->dtype, to_ref(value->type->sizes)),
                    {{"dims", to_span(dims.numbers())}});
}

ir::Value* Arithmetic::pad(ir::Value* value, DimsRef low, DimsRef high, const c10::Scalar& number) {
  const auto zero = [](Dim n) { return n == 0; };
  if (std::ranges::all_of(low, zero) && std::ranges::all_of(high, zero)) return value;
  Sizes sizes = sizes_of(value);
  for (size_t k = 0; k < sizes.size(); ++k) sizes[k] += low[k] + high[k];
  return call_.node(Op::pad, {value, this->number(value->type->dtype, number)}, rows(value->type->dtype, sizes),
                    {{"low", low.symbolic()}, {"high", high.symbolic()}});
}

ir::Value* Arithmetic::index_map(ir::Value* value, DimsRef origin, DimsRef map, DimsRef sizes) {
  return call_.node(Op::index_map, {value}, rows(value->type->dtype, sizes),
                    {{"origin", origin.symbolic()}, {"map", map.symbolic()}});
}

ir::Value* Arithmetic::along(ir::Value* value, size_t dim, size_t rank) {
  Sizes sizes(rank, 1);
  sizes[dim] = numel(value->type->sizes);
  return reshape(value, sizes);
}

ir::Value* Arithmetic::count(Dim size) {
  return call_.node(Op::iota, {}, rows(DType::i64, {size}));
}

ir::Value* Arithmetic::index(ir::Value* value, int64_t first, std::span<ir::Value* const> indices) {
  c10::SmallVector<ir::Value*, 4> operands{value};
  Places dims;
  Sizes joined, sizes = sizes_of(value);
  for (ir::Value* one : indices) {
    BRAZE_CHECK(broadcast_into(joined, to_ref(one->type->sizes)), "indices of a rule's own do not broadcast");
    dims.push_back(first + static_cast<int64_t>(dims.size()));
    operands.push_back(one);
  }
  sizes.erase(sizes.begin() + first, sizes.begin() + first + static_cast<int64_t>(dims.size()));
  sizes.insert(sizes.begin() + first, joined.begin(), joined.end());
  const ir::Attr attrs[] = {{"dims", std::span<const int64_t>(dims.data(), dims.size())}};
  const ir::Type* type = rows(value->type->dtype, sizes);
  return call_.graph().create(Op::index, {operands.data(), operands.size()}, attrs, {&type, 1})->result();
}

ir::Value* Arithmetic::scatter(ir::Value* base, int64_t dim, ir::Value* index, ir::Value* source,
                               std::string_view combine) {
  return call_.node(Op::scatter, {base, source, index}, rows(base->type->dtype, to_ref(base->type->sizes)),
                    {{"dim", dim}, {"combine", combine}});
}

ir::Value* Arithmetic::index_put(ir::Value* base, int64_t first, std::span<ir::Value* const> indices,
                                 ir::Value* source, std::string_view combine) {
  c10::SmallVector<ir::Value*, 4> operands{base, source};
  Places dims;
  for (ir::Value* one : indices) {
    dims.push_back(first + static_cast<int64_t>(dims.size()));
    operands.push_back(one);
  }
  const ir::Attr attrs[] = {{"dims", std::span<const int64_t>(dims.data(), dims.size())}, {"combine", combine}};
  const ir::Type* type = rows(base->type->dtype, to_ref(base->type->sizes));
  return call_.graph().create(Op::index_put, {operands.data(), operands.size()}, attrs, {&type, 1})->result();
}

ir::Value* Arithmetic::constant(std::span<const int64_t> numbers) {
  const at::Tensor real = at::detail::empty_cpu({std::ssize(numbers)}, at::kLong);
  std::ranges::copy(numbers, real.mutable_data_ptr<int64_t>());
  return constant_of(call_, real);
}

ir::Value* Arithmetic::constant(std::span<const double> numbers, ScalarType dtype) {
  BRAZE_CHECK(dtype == at::kDouble || dtype == at::kFloat, "constants are f32 or f64");
  const at::Tensor real = at::detail::empty_cpu({std::ssize(numbers)}, dtype);
  if (dtype == at::kDouble)
    std::ranges::copy(numbers, real.mutable_data_ptr<double>());
  else
    std::ranges::transform(numbers, real.mutable_data_ptr<float>(),
                           [](double number) { return static_cast<float>(number); });
  return constant_of(call_, real);
}

c10::MemoryFormat suggested_format(const Operand& x) {
  if (is_channels_last(x.sizes, x.strides, 4)) return c10::MemoryFormat::ChannelsLast;
  if (is_channels_last(x.sizes, x.strides, 5)) return c10::MemoryFormat::ChannelsLast3d;
  return c10::MemoryFormat::Contiguous;
}

c10::MemoryFormat contiguous_format(const Operand& x) {
  if (is_row_major(x.sizes, x.strides)) return c10::MemoryFormat::Contiguous;
  const size_t rank = x.sizes.size();
  if (rank != 4 && rank != 5) return c10::MemoryFormat::Contiguous;
  const auto format = rank == 4 ? c10::MemoryFormat::ChannelsLast : c10::MemoryFormat::ChannelsLast3d;
  const Sizes wanted = format_strides(x.sizes, format);
  bool is_same = true;
  for (size_t k = 0; k < rank; ++k) is_same = is_same && (x.sizes[k] == 1 || x.strides[k] == wanted[k]);
  return is_same ? format : suggested_format(x);
}

DType computing_dtype(ScalarType dtype) {
  return ir::compute_dtype(to_dtype(dtype));
}

}  // namespace braze::capture
