// Reductions. Results are contiguous, as eager's are.
#include <algorithm>
#include <cmath>
#include <limits>

#include "capture/arithmetic.h"
#include "capture/pointwise.h"

namespace braze::capture {
namespace {

/// What a reduction runs over.
struct Axes {
  Places dims;  ///< Sorted.
  bool keepdim = false;
  Sizes result;   ///< Sizes of the result.
  Sizes kept;     ///< Sizes of the result with keepdim.
  Dim count = 1;  ///< Elements that go into one result.
};

/// `dims` empty means all of them.
std::optional<Axes> axes_of(DimsRef sizes, c10::IntArrayRef dims, bool keepdim) {
  const auto rank = static_cast<int64_t>(sizes.size());
  if (rank > 64) return std::nullopt;  // at::dim_list_to_bitset raises
  c10::SmallVector<bool, 5> reduced(std::max<int64_t>(rank, 1), dims.empty());
  for (const int64_t given : dims) {
    const auto dim = wrap(given, rank);
    if (!dim || reduced[*dim]) return std::nullopt;
    reduced[*dim] = true;
  }
  Axes axes;
  axes.keepdim = keepdim;
  for (int64_t k = 0; k < rank; ++k) {
    if (reduced[k]) {
      axes.dims.push_back(k);
      axes.count *= sizes[k];
      if (keepdim) axes.result.push_back(1);
    } else {
      axes.result.push_back(sizes[k]);
    }
    axes.kept.push_back(reduced[k] ? Dim(1) : sizes[k]);
  }
  return axes;
}

ir::Value* reduce(Call& call, Op op, ir::Value* value, const Axes& axes, DType dtype, bool keepdim) {
  const ir::Type* type = call.contiguous(to_scalar_type(dtype), keepdim ? axes.kept : axes.result);
  const std::span<const int64_t> dims(axes.dims.data(), axes.dims.size());
  return call.node(op, {value}, type, {{"dims", dims}, {"keepdim", keepdim}});
}

ir::Value* reduce(Call& call, Op op, ir::Value* value, const Axes& axes) {
  return reduce(call, op, value, axes, value->type->dtype, axes.keepdim);
}

/// Where the arguments of a reduction stand; -1: it has none.
struct Form {
  int8_t dims, keepdim, dtype;
};
constexpr Form kForms[] = {
    {-1, -1, 1},   // 0: (self, dtype)
    {1, 2, 3},     // 1: (self, dim, keepdim, dtype)
    {1, 2, -1},    // 2: (self, dim, keepdim)
    {-1, -1, -1},  // 3: (self)
};

std::optional<Axes> axes_of(Call& call, const Operand& x, const Form& form) {
  const Places dims = form.dims < 0 ? Places() : call.places(form.dims);
  return axes_of(x.sizes, dims, form.keepdim >= 0 && call.flag(form.keepdim));
}

bool sum_like(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const Form& form = kForms[row.variant];
  const auto axes = axes_of(call, *x, form);
  if (!axes) return false;
  const bool integral = c10::isIntegralType(x->dtype, true);
  const ScalarType dtype =
      call.dtype(form.dtype).value_or(integral && row.op != Op::mean ? ScalarType::Long : x->dtype);
  if (!is_kernel_dtype(dtype) || (row.op == Op::mean && !c10::isFloatingType(dtype))) return false;
  // The CPU's kernel rounds each product of halves to their type, where it may overflow.
  if (row.op == Op::prod && c10::isReducedFloatingType(dtype) && call.device().is_cpu() && !x->sizes.empty())
    return false;
  // Of integers a mean in halves is added up before it is rounded.
  const DType added = integral && row.op == Op::mean ? ir::compute_dtype(to_dtype(dtype)) : to_dtype(dtype);
  ir::Value* value = call.cast(x->value, added);
  // A 0-dim tensor has nothing to reduce.
  return call.give(call.cast(x->sizes.empty() ? value : reduce(call, row.op, value, *axes), to_dtype(dtype)));
}

/// amax and amin, and max() and min() of everything.
bool extreme(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto axes = axes_of(call, *x, kForms[row.variant]);
  if (!axes || axes->count == 0) return false;
  if (x->sizes.empty()) return call.give(x->value);
  const Op boolean = row.op == Op::amax ? Op::any : Op::all;
  return call.give(reduce(call, x->dtype == ScalarType::Bool ? boolean : row.op, x->value, *axes));
}

/// max(self, dim, keepdim) -> (values, indices), and min.
bool extreme_with_index(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto axes = axes_of(x->sizes, call.places(1), call.flag(2));
  if (!axes || axes->count == 0) return false;
  if (x->sizes.empty()) {
    call.give(x->value);
    return call.give(call.scalar(ScalarType::Long, 0));
  }
  const bool is_bool = x->dtype == ScalarType::Bool;
  const Op boolean = row.op == Op::amax ? Op::any : Op::all;
  call.give(reduce(call, is_bool ? boolean : row.op, x->value, *axes));
  const Op index = row.op == Op::amax ? Op::argmax : Op::argmin;
  ir::Value* ordered = is_bool ? call.cast(x->value, DType::u8) : x->value;
  return call.give(reduce(call, index, ordered, *axes, DType::i64, axes->keepdim));
}

bool index_of_extreme(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || x->dtype == ScalarType::Bool) return false;
  const auto axes = axes_of(x->sizes, call.places(1), call.flag(2));
  if (!axes || axes->count == 0) return false;
  if (x->sizes.empty()) return call.give(call.scalar(ScalarType::Long, 0));
  return call.give(reduce(call, row.op, x->value, *axes, DType::i64, axes->keepdim));
}

/// any and all: bool, save that uint8 stays uint8.
bool truth(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const Form& form = kForms[row.variant];
  if (form.dims >= 0 && call.has(form.dims) && call.ints(form.dims).empty() && !x->sizes.empty()) return false;
  const auto axes = axes_of(call, *x, form);
  if (!axes) return false;
  ir::Value* value = call.cast(x->value, DType::b8);
  if (!x->sizes.empty()) value = reduce(call, row.op, value, *axes);
  return call.give(x->dtype == ScalarType::Byte ? call.cast(value, DType::u8) : value);
}

/// _is_all_true and _is_any_true, which raise for anything but bools.
bool truth_of_bools(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  return x && x->dtype == ScalarType::Bool && truth(call, row);
}

/// The sum of what is not NaN.
bool nansum(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  if (!c10::isFloatingType(x->dtype)) return sum_like(call, row);
  const auto axes = axes_of(call, *x, kForms[row.variant]);
  const ScalarType dtype = call.dtype(kForms[row.variant].dtype).value_or(x->dtype);
  if (!axes || !c10::isFloatingType(dtype)) return false;
  const ir::Type* type = call.retyped(x->value->type, to_dtype(x->dtype));
  ir::Value* is_nan = call.node(Op::isnan, {x->value}, call.retyped(type, DType::b8));
  ir::Value* value = call.node(Op::where, {is_nan, call.scalar(x->dtype, 0), x->value}, type);
  value = call.cast(value, to_dtype(dtype));
  return call.give(x->sizes.empty() ? value : reduce(call, Op::sum, value, *axes));
}

/// count_nonzero(self, dims)
bool count_nonzero(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto axes = axes_of(x->sizes, call.places(1), false);
  if (!axes) return false;
  ir::Value* value = call.cast(call.cast(x->value, DType::b8), DType::i64);
  return call.give(x->sizes.empty() ? value : reduce(call, Op::sum, value, *axes));
}

/// aminmax(self, dim, keepdim) -> (min, max)
bool both_extremes(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto axes = axes_of(x->sizes, call.places(1), call.flag(2));
  if (!axes || axes->count == 0) return false;
  const bool is_bool = x->dtype == ScalarType::Bool;
  for (const Op op : {is_bool ? Op::all : Op::amin, is_bool ? Op::any : Op::amax})
    call.give(x->sizes.empty() ? call.copy(x->value, call.contiguous(x->dtype, {}))
                               : reduce(call, op, x->value, *axes));
  return true;
}

bool is_of_everything(const Operand& x, const Axes& axes) {
  std::vector<bool> reduced(x.sizes.size());
  for (const int64_t dim : axes.dims) reduced[dim] = true;
  for (size_t k = 0; k < reduced.size(); ++k)
    if (!reduced[k] && !x.sizes[k].is_surely(1)) return false;
  return true;
}

/// The variance of all elements, of which ATen adds them up in f32 for their mean (std_var_all_cpu).
ir::Value* infinite_if_sum_overflows(Call& call, ir::Value* variance, ir::Value* wide, const Axes& axes) {
  Arithmetic a(call);
  ir::Value* sum = call.cast(reduce(call, Op::sum, wide, axes), DType::f32);
  ir::Value* more = a.where(a.op(Op::isinf, sum), a.number(DType::f64, std::numeric_limits<double>::infinity()),
                            a.number(DType::f64, 0));
  return call.node(Op::add, {variance, more}, variance->type);
}

/// A mean as WelfordOps has it, which moves on by what the next element differs from the mean so far: of an
/// infinite one none comes back, unless the last element is the only one.
ir::Value* without_infinities(Call& call, ir::Value* mean, ir::Value* wide, const Axes& axes) {
  Arithmetic a(call);
  ir::Value* last = wide;
  for (const int64_t dim : axes.dims) last = a.slice(last, dim, to_ref(wide->type->sizes)[dim] - 1, 1);
  const auto count = [&](ir::Value* of, Op test) {
    return a.where(a.op(test, of), a.number(DType::f64, 1), a.number(DType::f64, 0));
  };
  ir::Value* lost = reduce(call, Op::sum, count(a.op(Op::mul, wide, a.number(DType::f64, 0)), Op::isnan), axes);
  ir::Value* at_last = a.reshape(count(last, Op::isinf), to_ref(lost->type->sizes));
  ir::Value* nan = a.number(DType::f64, std::numeric_limits<double>::quiet_NaN());
  return call.node(Op::where, {a.op(Op::eq, lost, at_last), mean, nan}, mean->type);
}

/// var, std, var_mean, std_mean: (self, dim, correction, keepdim).
enum Moments { kVar = 0, kStd = 1, kWithMean = 2 };

bool variance(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype) || x->sizes.empty()) return false;
  const auto axes = axes_of(x->sizes, call.places(1), call.flag(3));
  if (!axes) return false;
  const double correction = call.has(2) ? call.real(2) : 1.0;
  // ATen's running mean of f64 stays finite where a sum does not.
  if (call.device().is_cpu() && x->dtype == ScalarType::Double && row.variant & kWithMean) return false;
  // Too few values: eager warns, at every call.
  const auto least = static_cast<int64_t>(std::floor(correction)) + 1;
  if (is_empty(axes->result) || axes->count < least) return false;
  // In f64, as ATen's WelfordOps: squares of f32 overflow from 1e19 on.
  const DType dtype = to_dtype(x->dtype);
  ir::Value* wide = call.cast(x->value, DType::f64);
  const std::span<const int64_t> dims(axes->dims.data(), axes->dims.size());
  ir::Value* value =
      call.node(Op::var, {wide}, call.contiguous(ScalarType::Double, axes->result),
                {{"dims", dims}, {"keepdim", axes->keepdim}, {"correction", ir::Number::of(correction)}});
  const bool on_cpu = call.device().is_cpu(), with_mean = row.variant & kWithMean;
  if (on_cpu && !with_mean && x->dtype == ScalarType::Float && is_of_everything(*x, *axes))
    value = infinite_if_sum_overflows(call, value, wide, *axes);
  if (row.variant & kStd) value = call.node(Op::sqrt, {value}, value->type);
  call.give(call.cast(value, dtype));
  if (!with_mean) return true;
  ir::Value* mean = reduce(call, Op::mean, wide, *axes);
  return call.give(call.cast(on_cpu ? without_infinities(call, mean, wide, *axes) : mean, dtype));
}

ir::Value* number(Call& call, const ir::Value* like, double value) {
  return call.scalar(to_scalar_type(like->type->dtype), value);
}

/// (sum |x|**order)**(1/order) over the axes, in f32 at least.
bool vector_norm(Call& call, const Operand& x, double order, const Places& given, bool keepdim,
                 std::optional<ScalarType> wanted) {
  const ScalarType dtype = wanted.value_or(x.dtype);
  if (x.is_number() || !c10::isFloatingType(x.dtype) || !c10::isFloatingType(dtype)) return false;
  if (wanted && c10::promoteTypes(x.dtype, dtype) != dtype) return false;
  const auto axes = axes_of(x.sizes, given, keepdim);
  if (!axes || (axes->count == 0 && (order < 0 || std::isinf(order)))) return false;
  const DType compute = ir::compute_dtype(to_dtype(dtype));
  ir::Value* value = call.cast(x.value, compute);
  const auto node = [&](Op op, std::initializer_list<ir::Value*> operands, const ir::Value* like) {
    return call.node(op, operands, call.retyped(like->type, compute));
  };
  const auto reduced = [&](Op op, ir::Value* v) { return x.sizes.empty() ? v : reduce(call, op, v, *axes); };
  ir::Value* result;
  if (axes->count == 1 && order != 0) {
    result = reduced(Op::sum, node(Op::abs, {value}, value));  // As in eager: powers would overflow or vanish.
  } else if (order == 2) {
    ir::Value* sum = reduced(Op::sum, node(Op::mul, {value, value}, value));
    result = node(Op::sqrt, {sum}, sum);
  } else if (order == 0) {
    ir::Value* nonzero = call.node(Op::ne, {value, number(call, value, 0)}, call.retyped(value->type, DType::b8));
    result = reduced(Op::sum, node(Op::cast, {nonzero}, value));
  } else {
    ir::Value* magnitude = node(Op::abs, {value}, value);
    if (order == 1)
      result = reduced(Op::sum, magnitude);
    else if (std::isinf(order))
      result = reduced(order > 0 ? Op::amax : Op::amin, magnitude);
    else {
      ir::Value* sum = reduced(Op::sum, node(Op::pow, {magnitude, number(call, value, order)}, magnitude));
      result = node(Op::pow, {sum, number(call, value, 1 / order)}, sum);
    }
  }
  return call.give(call.cast(result, to_dtype(dtype)));
}

/// linalg_vector_norm(self, ord, dim, keepdim, dtype)
bool linalg_norm(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  return x && vector_norm(call, *x, call.real(1), call.places(2), call.flag(3), call.dtype(4));
}

/// norm(self, p), and norm(self, p, dim, keepdim) as variant 1.
bool norm(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  const double order = call.has(1) ? call.real(1) : 2.0;
  const bool dims = row.variant == 1;
  return x && vector_norm(call, *x, order, dims ? call.places(2) : Places(), dims && call.flag(3), std::nullopt);
}

/// dist(self, other, p): the norm of the difference.
bool dist(Call& call, const RuleRow&) {
  const auto x = call.operand(0), y = call.operand(1);
  if (!x || !y || x->is_number() || y->is_number()) return false;
  Operand off;
  off.dtype = promoted({&*x, &*y});
  if (!c10::isFloatingType(off.dtype)) return false;
  Pointwise p(call, off.dtype, {&*x, &*y});
  if (!p.valid()) return false;
  off.value = call.cast(p.op(Op::sub, p.in(*x), p.in(*y)), to_dtype(off.dtype));
  const DimsRef sizes = p.type()->sizes;
  off.sizes = Sizes(sizes.begin(), sizes.end());
  if (!(to_ref(off.value->type->sizes) == sizes)) return false;
  return vector_norm(call, off, call.real(2), {}, false, std::nullopt);
}

/// trace(self): f32 is summed in f64, as in eager.
bool trace(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->sizes.size() != 2 || x->dtype == ScalarType::Bool) return false;
  Arithmetic a(call);
  const Sizes origin{0, 0}, map{1, 1}, size{smaller(x->sizes[0], x->sizes[1])};
  const bool integral = c10::isIntegralType(x->dtype, true);
  ir::Value* diagonal = call.cast(a.index_map(x->value, origin, map, size), integral ? DType::i64 : DType::f64);
  return call.give(call.cast(a.reduce(Op::sum, diagonal, {0}), integral ? DType::i64 : to_dtype(x->dtype)));
}

/// max + log(sum(exp(x - max))), with an infinite max counted as 0. Source: ATen/native/ReduceOps.cpp.
bool logsumexp(Call& call, const RuleRow&) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto axes = axes_of(x->sizes, call.places(1), call.flag(2));
  const bool is_single = x->sizes.empty();
  if (!axes || axes->count == 0 || (!is_single && call.places(1).empty())) return false;  // That may be refused.
  if (is_single) return call.give(call.cast(x->value, to_dtype(floating(x->dtype))));
  const ScalarType dtype = floating(x->dtype);
  const DType compute = ir::compute_dtype(to_dtype(dtype));
  ir::Value* value = call.cast(x->value, compute);
  ir::Value* largest = reduce(call, Op::amax, value, *axes, compute, true);
  const ir::Type* row = largest->type;
  ir::Value* magnitude = call.node(Op::abs, {largest}, row);
  ir::Value* infinite = call.node(Op::eq, {magnitude, number(call, value, std::numeric_limits<double>::infinity())},
                                  call.retyped(row, DType::b8));
  largest = call.node(Op::where, {infinite, number(call, value, 0), largest}, row);
  // The added 0 keeps a product and the subtraction from becoming one fma, as in softmax (passes/decompose.cpp).
  ir::Value* taken = call.node(Op::add, {value, number(call, value, 0)}, value->type);
  ir::Value* shifted = call.node(Op::exp, {call.node(Op::sub, {taken, largest}, value->type)}, value->type);
  ir::Value* sum = reduce(call, Op::sum, shifted, *axes, compute, true);
  ir::Value* result = call.node(Op::add, {call.node(Op::log, {sum}, row), largest}, row);
  if (!axes->keepdim)
    result = call.node(Op::reshape, {result}, call.contiguous(to_scalar_type(compute), axes->result));
  return call.give(call.cast(result, to_dtype(dtype)));
}

}  // namespace

std::span<const RuleRow> reduction_rules() {
  static constexpr RuleRow rows[] = {
      {"sum", sum_like, Op::sum, 0},
      {"sum.dim_IntList", sum_like, Op::sum, 1},
      {"mean", sum_like, Op::mean, 0},
      {"mean.dim", sum_like, Op::mean, 1},
      {"prod", sum_like, Op::prod, 0},
      {"prod.dim_int", sum_like, Op::prod, 1},
      {"nansum", nansum, Op::sum, 1},
      {"count_nonzero", count_nonzero},
      {"count_nonzero.dim_IntList", count_nonzero},
      {"aminmax", both_extremes},
      {"amax", extreme, Op::amax, 2},
      {"amin", extreme, Op::amin, 2},
      {"max", extreme, Op::amax, 3},
      {"min", extreme, Op::amin, 3},
      {"max.dim", extreme_with_index, Op::amax},
      {"min.dim", extreme_with_index, Op::amin},
      {"argmax", index_of_extreme, Op::argmax},
      {"argmin", index_of_extreme, Op::argmin},
      {"any", truth, Op::any, 3},
      {"any.dim", truth, Op::any, 2},
      {"any.dims", truth, Op::any, 2},
      {"all", truth, Op::all, 3},
      {"all.dim", truth, Op::all, 2},
      {"all.dims", truth, Op::all, 2},
      {"_is_any_true", truth_of_bools, Op::any, 3},
      {"_is_all_true", truth_of_bools, Op::all, 3},
      {"var.correction", variance, Op::var, kVar},
      {"std.correction", variance, Op::var, kStd},
      {"var_mean.correction", variance, Op::var, kVar | kWithMean},
      {"std_mean.correction", variance, Op::var, kStd | kWithMean},
      {"linalg_vector_norm", linalg_norm},
      {"norm.Scalar", norm, Op::input, 0},
      {"norm.ScalarOpt_dim", norm, Op::input, 1},
      {"logsumexp", logsumexp},
      {"dist", dist},
      {"trace", trace},
  };
  return rows;
}

}  // namespace braze::capture
