// Writing by index tensors: scatter, index_put and their kin. f16 and bf16 are combined in f32 and rounded once.
#include <algorithm>
#include <limits>

#include "capture/arithmetic.h"

namespace braze::capture {
namespace {

bool is_index(const Operand& operand) {
  return !operand.is_number() && (operand.dtype == ScalarType::Long || operand.dtype == ScalarType::Int);
}

/// What a way to combine is called, by scatter's old names, by scatter_reduce's, and in the graph.
struct Way {
  std::string_view old_name, name, combine;
};
constexpr Way kWays[] = {{"add", "sum", "add"},
                         {"multiply", "prod", "mul"},
                         {"", "mean", "add"},
                         {"", "amax", "max"},
                         {"", "amin", "min"}};

/// The number that combining leaves as it is.
c10::Scalar identity(std::string_view combine, ScalarType dtype) {
  if (combine == "add") return 0;
  if (combine == "mul") return 1;
  const bool largest = combine == "min";
  if (c10::isFloatingType(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? infinity : -infinity;
  }
  const auto limits = [&]<typename T>(T) -> c10::Scalar {
    return static_cast<int64_t>(largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest());
  };
  switch (dtype) {
    case ScalarType::Long: return limits(int64_t{});
    case ScalarType::Int: return limits(int32_t{});
    case ScalarType::Short: return limits(int16_t{});
    case ScalarType::Char: return limits(int8_t{});
    default: return limits(uint8_t{});
  }
}

/// Operands of one update, all with at least one dimension.
struct Update {
  Operand x;
  int64_t dim = 0;
  ir::Value *base = nullptr, *index = nullptr, *source = nullptr;  ///< index: shape and rank of source.
  Sizes sizes;                                                     ///< Of the source.
};

/// combine="set" or an op; with `mean` the sums are divided by how many elements went into them.
ir::Value* updated(Call& call, const Update& u, std::string_view combine, bool mean, bool include_self) {
  Arithmetic a(call);
  if (combine == "set") return a.scatter(u.base, u.dim, u.index, u.source, combine);
  const DType dtype = computing_dtype(u.x.dtype);
  ir::Value *base = call.cast(u.base, dtype), *source = call.cast(u.source, dtype);
  const auto everywhere = [&](const c10::Scalar& number) {
    return a.expand(a.number(dtype, number), to_ref(source->type->sizes));
  };
  if (!include_self)
    base = a.scatter(base, u.dim, u.index, everywhere(identity(combine, to_scalar_type(dtype))), "set");
  ir::Value* result = a.scatter(base, u.dim, u.index, source, combine);
  if (mean) {
    ir::Value* none = a.expand(a.number(dtype, include_self ? 1 : 0), to_ref(base->type->sizes));
    ir::Value* count = a.scatter(none, u.dim, u.index, everywhere(1), "add");
    count = a.op(Op::maximum, count, a.number(dtype, 1));
    result = a.op(ir::is_floating(dtype) ? Op::div : Op::floor_div, result, count);
  }
  return call.cast(result, to_dtype(u.x.dtype));
}

bool give(Call& call, const Update& u, ir::Value* value) {
  Arithmetic a(call);
  return call.give(call.copy(a.reshape(value, u.x.sizes), call.contiguous(u.x.dtype, u.x.sizes)));
}

/// Combining that has an arithmetic in the dtype.
bool combines(std::string_view combine, ScalarType dtype) {
  return dtype != ScalarType::Bool || combine == "set" || combine == "add";
}

Sizes at_least_one(const Sizes& sizes) {
  return sizes.empty() ? Sizes{1} : sizes;
}

/// (self, dim, index, src, ...), with index of the rank of self and no longer than src.
std::optional<Update> scatter_update(Call& call) {
  auto x = call.operand(0);
  const auto index = call.operand(2), source = call.operand(3);
  if (!x || !index || !source || x->is_number() || !is_index(*index)) return std::nullopt;
  if (!source->is_number() && source->dtype != x->dtype) return std::nullopt;
  Update u;
  const Sizes sizes = at_least_one(x->sizes);
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto dim = wrap(call.integer(1), rank);
  u.sizes = at_least_one(index->sizes);
  if (!dim || numel(u.sizes) == 0 || static_cast<int64_t>(u.sizes.size()) != rank) return std::nullopt;
  if (sizes[*dim] == 0) return std::nullopt;  // No index lies in it: eager raises.
  u.dim = *dim;
  Arithmetic a(call);
  const Sizes given = at_least_one(source->sizes);
  for (int64_t k = 0; k < rank; ++k) {
    if (k != *dim && u.sizes[k] > sizes[k]) return std::nullopt;
    if (!source->is_number() && (static_cast<int64_t>(given.size()) != rank || u.sizes[k] > given[k]))
      return std::nullopt;
  }
  if (source->is_number()) {
    u.source = a.expand(a.number(to_dtype(x->dtype), source->number), u.sizes);
  } else {
    u.source = a.reshape(source->value, given);
    for (int64_t k = 0; k < rank; ++k) u.source = a.slice(u.source, k, 0, u.sizes[k]);
  }
  u.base = a.reshape(x->value, sizes);
  u.index = a.reshape(index->value, u.sizes);
  u.x = std::move(*x);
  return u;
}

const Way* way_named(std::string_view name, std::string_view Way::* field) {
  const auto found = std::ranges::find(kWays, name, field);
  return name.empty() || found == std::end(kWays) ? nullptr : found;
}

/// No element is indexed: a copy.
bool changes_nothing(Call& call) {
  const at::Tensor& index = call.tensor(2);
  if (!wrap(call.integer(1), static_cast<int64_t>(dims_of(call.tensor(0)).size()))) return false;
  return !index.defined() || (index.scalar_type() == at::kLong && numel(dims_of(index)) == 0);
}

bool give_copy(Call& call) {
  const auto x = call.operand(0);
  return x && !x->is_number() && call.give(call.copy(x->value, call.contiguous(x->dtype, x->sizes)));
}

/// scatter.src, scatter.value (self, dim, index, src or value), and with `reduce` behind them.
bool scatter(Call& call, const RuleRow&) {
  std::string_view combine = "set";
  if (call.arguments.size() > 4 && call.arg(4).isString()) {
    const Way* way = way_named(call.arg(4).toStringRef(), &Way::old_name);
    if (!way) return false;
    combine = way->combine;
  }
  if (changes_nothing(call)) return give_copy(call);
  const auto u = scatter_update(call);
  return u && combines(combine, u->x.dtype) && give(call, *u, updated(call, *u, combine, false, true));
}

bool scatter_add(Call& call, const RuleRow&) {
  if (changes_nothing(call)) return give_copy(call);
  const auto u = scatter_update(call);
  return u && give(call, *u, updated(call, *u, "add", false, true));
}

/// scatter_reduce.two(self, dim, index, src, reduce, *, include_self)
bool scatter_reduce(Call& call, const RuleRow&) {
  const Way* way = way_named(call.arg(4).toStringRef(), &Way::name);
  if (way && changes_nothing(call)) return give_copy(call);
  const auto u = scatter_update(call);
  if (!way || !u) return false;
  if (u->x.dtype != ScalarType::Bool)
    return give(call, *u, updated(call, *u, way->combine, way->name == "mean", call.flag(5)));
  // Sums of bools are their largest, products their smallest.
  if (way->name == "mean") return false;
  Update bytes = *u;
  bytes.x.dtype = ScalarType::Byte;
  for (ir::Value** value : {&bytes.base, &bytes.source}) *value = call.cast(*value, DType::u8);
  const bool smallest = way->combine == "mul" || way->combine == "min";
  return give(call, *u, call.cast(updated(call, bytes, smallest ? "min" : "max", false, call.flag(5)), DType::b8));
}

/// (self, dim, index, source, ...) with a one-dimensional index of slices along dim.
std::optional<Update> slices_update(Call& call) {
  auto x = call.operand(0);
  const auto index = call.operand(2), source = call.operand(3);
  if (!x || !index || !source || x->is_number() || source->is_number() || !is_index(*index)) return std::nullopt;
  if (source->dtype != x->dtype || index->sizes.size() > 1) return std::nullopt;
  Update u;
  const Sizes sizes = at_least_one(x->sizes);
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(sizes.size()));
  const Dim count = numel(index->sizes);
  if (!dim || count == 0) return std::nullopt;
  u.dim = *dim;
  u.sizes = sizes;
  u.sizes[*dim] = count;
  // A 0-dim source is one slice of a vector.
  const bool one = source->sizes.empty() && sizes.size() == 1;
  if (one ? count != 1 : source->sizes != u.sizes) return std::nullopt;
  if (numel(u.sizes) == 0) return std::nullopt;
  Arithmetic a(call);
  u.base = a.reshape(x->value, sizes);
  u.source = a.reshape(source->value, u.sizes);
  u.index = a.expand(a.along(index->value, static_cast<size_t>(*dim), sizes.size()), u.sizes);
  u.x = std::move(*x);
  return u;
}

/// index_add(self, dim, index, source, *, alpha)
bool index_add(Call& call, const RuleRow&) {
  auto u = slices_update(call);
  if (!u) return false;
  const c10::Scalar alpha = call.number(4);
  if (alpha.isComplex()) return false;
  if (!alpha.equal(1)) {
    if (alpha.isFloatingPoint() && !c10::isFloatingType(u->x.dtype)) return false;
    Arithmetic a(call);
    const DType dtype = computing_dtype(u->x.dtype);  // of bools the product is their conjunction
    u->source = a.op(Op::mul, call.cast(u->source, dtype), a.number(dtype, alpha));
  }
  return give(call, *u, updated(call, *u, "add", false, true));
}

bool index_copy(Call& call, const RuleRow&) {
  const auto u = slices_update(call);
  return u && give(call, *u, updated(call, *u, "set", false, true));
}

/// index_reduce(self, dim, index, source, reduce, *, include_self)
bool index_reduce(Call& call, const RuleRow&) {
  const Way* way = way_named(call.arg(4).toStringRef(), &Way::name);
  const auto u = slices_update(call);
  if (!way || way->name == "sum" || !u || u->x.dtype == ScalarType::Bool) return false;
  return give(call, *u, updated(call, *u, way->combine, way->name == "mean", call.flag(5)));
}

// ---- by advanced indices, which count from the end where negative

const ir::Type* preserved(Call& call, const Operand& x) {
  return call.type(x.dtype, x.sizes, preserved_strides(x.sizes, x.strides));
}

ir::Value* put(Call& call, ScalarType dtype, ir::Value* base, int64_t first, std::span<ir::Value* const> indices,
               ir::Value* source, bool accumulate) {
  Arithmetic a(call);
  const DType compute = accumulate ? computing_dtype(dtype) : to_dtype(dtype);
  ir::Value* result =
      a.index_put(call.cast(base, compute), first, indices, call.cast(source, compute), accumulate ? "add" : "set");
  return call.cast(result, to_dtype(dtype));
}

/// index_fill.int_Scalar and .int_Tensor (self, dim, index, value)
bool index_fill(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(2), value = call.operand(3);
  if (!x || !index || !value || x->is_number() || !is_index(*index) || index->sizes.size() > 1) return false;
  if (!value->sizes.empty() || numel(x->sizes) == 0 || numel(index->sizes) == 0) return false;
  Arithmetic a(call);
  Sizes sizes = at_least_one(x->sizes);
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(sizes.size()));
  if (!dim) return false;
  if (value->is_number() && value->number.isComplex()) return false;
  ir::Value* base = a.reshape(x->value, sizes);
  sizes[*dim] = numel(index->sizes);
  ir::Value* const indices[] = {a.reshape(index->value, {sizes[*dim]})};
  ir::Value* source = a.expand(call.as(*value, x->dtype), sizes);
  ir::Value* result = put(call, x->dtype, base, *dim, indices, source, false);
  return call.give(call.copy(a.reshape(result, x->sizes), preserved(call, *x)));
}

/// put(self, index, source, accumulate): into self as if it were one-dimensional.
bool put_flat(Call& call, const RuleRow&) {
  const auto x = call.operand(0), index = call.operand(1), source = call.operand(2);
  if (!x || !index || !source || x->is_number() || source->is_number() || !is_index(*index)) return false;
  const Dim count = numel(index->sizes);
  if (source->dtype != x->dtype || numel(source->sizes) != count) return false;
  if (count == 0) return call.give(call.copy(x->value, preserved(call, *x)));
  if (numel(x->sizes) == 0) return false;
  Arithmetic a(call);
  ir::Value* const indices[] = {a.reshape(index->value, {count})};
  ir::Value* result = put(call, x->dtype, a.reshape(x->value, {numel(x->sizes)}), 0, indices,
                          a.reshape(source->value, {count}), call.flag(3));
  return call.give(call.copy(a.reshape(result, x->sizes), preserved(call, *x)));
}

/// The only index is a mask, from dimension `first` on, and what is written does not depend on how often it holds.
bool put_masked(Call& call, const Operand& x, const Operand& mask, size_t first, const Operand& value,
                bool accumulate) {
  if (first + mask.sizes.size() > x.sizes.size()) return false;
  for (size_t k = 0; k < mask.sizes.size(); ++k)
    if (mask.sizes[k] != x.sizes[first + k]) return false;
  Sizes own = value.sizes;
  while (own.size() > x.sizes.size() - first - mask.sizes.size() && own[0] == 1) own.erase(own.begin());
  Sizes joined = x.sizes;
  if (own.size() > x.sizes.size() - first - mask.sizes.size() || !broadcast_into(joined, own) || joined != x.sizes)
    return false;
  Arithmetic a(call);
  Sizes sizes(x.sizes.size(), 1);
  std::ranges::copy(mask.sizes, sizes.begin() + static_cast<int64_t>(first));
  ir::Value* written = a.reshape(value.value, own);
  if (accumulate) {
    const DType dtype = computing_dtype(x.dtype);
    written = call.cast(a.op(Op::add, call.cast(x.value, dtype), call.cast(written, dtype)), to_dtype(x.dtype));
  }
  return call.give(call.node(Op::where, {a.reshape(mask.value, sizes), written, x.value}, preserved(call, x)));
}

/// index_put(self, indices, values, accumulate): integer tensors for any dimensions, or one mask.
bool index_put(Call& call, const RuleRow&) {
  const auto x = call.operand(0), values = call.operand(2);
  if (!x || !values || x->is_number() || values->is_number() || values->dtype != x->dtype) return false;
  const bool accumulate = call.flag(3);
  const auto given = call.arg(1).toOptionalTensorVector();
  c10::SmallVector<ir::Value*, 4> indices;
  Places dims;
  Sizes joined;
  for (size_t k = 0; k < given.size(); ++k) {
    if (!given[k] || !given[k]->defined()) continue;
    const auto one = call.operand_of(*given[k]);
    if (!one) return false;
    if (one->dtype == ScalarType::Bool && dims.empty() && numel(x->sizes) > 0) {
      for (size_t j = k + 1; j < given.size(); ++j)
        if (given[j] && given[j]->defined()) return false;
      return put_masked(call, *x, *one, k, *values, accumulate);
    }
    if (!is_index(*one) || !broadcast_into(joined, one->sizes)) return false;
    dims.push_back(static_cast<int64_t>(k));
    indices.push_back(one->value);
  }
  if (dims.empty() || dims.back() >= static_cast<int64_t>(x->sizes.size())) return false;
  if (numel(x->sizes) == 0 || numel(joined) == 0) return false;
  // As of embedding_dense_backward: eager sorts on a GPU, and gives the same bits each time.
  if (accumulate && call.device().is_cuda() && !c10::isIntegralType(x->dtype, true)) return false;
  Arithmetic a(call);
  // Indexed dimensions that are not adjacent come first, as in eager.
  const bool adjacent = dims.back() - dims.front() + 1 == std::ssize(dims);
  Places order = adjacent ? Places() : dims;
  for (int64_t k = 0; k < std::ssize(x->sizes); ++k)
    if (adjacent || std::ranges::find(dims, k) == dims.end()) order.push_back(k);
  ir::Value* base = adjacent ? x->value : a.permute(x->value, order);
  const int64_t first = adjacent ? dims[0] : 0;
  const DimsRef all = base->type->sizes;
  Sizes wanted(all.begin(), all.end());
  wanted.erase(wanted.begin() + first, wanted.begin() + first + std::ssize(dims));
  wanted.insert(wanted.begin() + first, joined.begin(), joined.end());
  Sizes sizes = wanted;
  if (values->sizes.size() > wanted.size() || !broadcast_into(sizes, values->sizes) || sizes != wanted)
    return false;
  ir::Value* result = put(call, x->dtype, base, first, {indices.data(), indices.size()},
                          a.expand(values->value, wanted), accumulate);
  if (!adjacent) {
    Sizes inverse(order.size());
    for (size_t k = 0; k < order.size(); ++k) inverse[order[k]] = static_cast<int64_t>(k);
    result = a.permute(result, inverse);
  }
  return call.give(call.copy(result, preserved(call, *x)));
}

/// masked_scatter(self, mask, source): the first elements of source, in order, where the mask holds. Eager raises
/// if there are too few: only a source as long as the mask is known to be long enough.
bool masked_scatter(Call& call, const RuleRow&) {
  const auto x = call.operand(0), mask = call.operand(1), source = call.operand(2);
  if (!x || !mask || !source || x->is_number() || mask->dtype != ScalarType::Bool || source->dtype != x->dtype)
    return false;
  Sizes sizes = x->sizes;
  if (!broadcast_into(sizes, mask->sizes)) return false;
  const Dim count = numel(sizes);
  if (count == 0 || numel(source->sizes) < count) return false;
  Arithmetic a(call);
  ir::Value* holds = a.expand(mask->value, sizes);
  ir::Value* ones = a.reshape(call.cast(holds, DType::i64), {count});
  ir::Value* before = call.node(Op::cumsum, {ones}, ones->type, {{"dim", int64_t{0}}});
  ir::Value* const place[] = {a.op(Op::sub, before, ones)};
  ir::Value* taken = a.index(a.reshape(source->value, {numel(source->sizes)}), 0, place);
  return call.give(call.node(Op::where, {holds, a.reshape(taken, sizes), a.expand(x->value, sizes)},
                             call.contiguous(x->dtype, sizes)));
}

}  // namespace

std::span<const RuleRow> update_rules() {
  static constexpr RuleRow rows[] = {
      {"scatter.src", scatter},
      {"scatter.value", scatter},
      {"scatter.reduce", scatter},
      {"scatter.value_reduce", scatter},
      {"scatter_add", scatter_add},
      {"scatter_reduce.two", scatter_reduce},
      {"index_add", index_add},
      {"index_copy", index_copy},
      {"index_reduce", index_reduce},
      {"index_fill.int_Scalar", index_fill},
      {"index_fill.int_Tensor", index_fill},
      {"index_put", index_put},
      {"_unsafe_index_put", index_put},
      {"_index_put_impl", index_put},
      {"put", put_flat},
      {"masked_scatter", masked_scatter},
  };
  return rows;
}

}  // namespace braze::capture
