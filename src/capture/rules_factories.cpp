// Tensors made from nothing. Uninitialised ones are zeros.
#include <algorithm>
#include <cmath>

#include "capture/call.h"
#include "capture/devices.h"
#include "capture/index_map.h"
#include "capture/number.h"

namespace braze::capture {
namespace {

constexpr int kNone = -1;

/// Where the arguments of a factory stand. The dtype is followed by layout, device, pin_memory.
struct Form {
  int sizes;  ///< Argument with the sizes; kNone: those of argument 0, a tensor.
  int fill;   ///< Argument with the value; kNone: see `value`.
  int dtype;
  int like;     ///< Argument whose dtype and device are the defaults; kNone: the global ones.
  int strides;  ///< Argument with strides.
  int format;   ///< Argument with a memory format.
  double value;
};

enum FormName {
  kFull,
  kZeros,
  kOnes,
  kEmpty,
  kEmptyStrided,
  kFullLike,
  kZerosLike,
  kOnesLike,
  kEmptyLike,
  kNewFull,
  kNewZeros,
  kNewOnes,
  kNewEmpty,
  kNewEmptyStrided,
  kScalarTensor
};
constexpr Form kForms[] = {
    {0, 1, 2, kNone, kNone, kNone, 0},      // full(size, fill_value, *, dtype, layout, device, pin_memory)
    {0, kNone, 1, kNone, kNone, kNone, 0},  // zeros(size, *, dtype, ...)
    {0, kNone, 1, kNone, kNone, kNone, 1},  // ones(size, *, dtype, ...)
    {0, kNone, 1, kNone, kNone, 5, 0},      // empty.memory_format(size, *, dtype, ..., memory_format)
    {0, kNone, 2, kNone, 1, kNone, 0},      // empty_strided(size, stride, *, dtype, ...)
    {kNone, 1, 2, 0, kNone, 6, 0},          // full_like(self, fill_value, *, dtype, ..., memory_format)
    {kNone, kNone, 1, 0, kNone, 5, 0},      // zeros_like(self, *, dtype, ..., memory_format)
    {kNone, kNone, 1, 0, kNone, 5, 1},      // ones_like
    {kNone, kNone, 1, 0, kNone, 5, 0},      // empty_like
    {1, 2, 3, 0, kNone, kNone, 0},          // new_full(self, size, fill_value, *, dtype, ...)
    {1, kNone, 2, 0, kNone, kNone, 0},      // new_zeros(self, size, *, dtype, ...)
    {1, kNone, 2, 0, kNone, kNone, 1},      // new_ones
    {1, kNone, 2, 0, kNone, kNone, 0},      // new_empty
    {1, kNone, 3, 0, 2, kNone, 0},          // new_empty_strided(self, size, stride, *, dtype, ...)
    {kNone, 0, 1, kNone, kNone, kNone, 0},  // scalar_tensor(s, *, dtype, ...)
};

/// dtype, layout, device, pin_memory from argument `i` on: of a type that kernels know, and on a device that can be
/// traced?
struct Options {
  ScalarType dtype;
  c10::Device device;
};
std::optional<Options> options(Call& call, int i, ScalarType dtype, c10::Device device) {
  dtype = call.dtype(i).value_or(dtype);
  if (call.has(i + 2)) device = numbered(call.arg(i + 2).toDevice());
  const bool other_layout = call.has(i + 1) && call.arg(i + 1).toLayout() != c10::kStrided;
  if (!is_kernel_dtype(dtype) || other_layout || device.is_meta() || (call.has(i + 3) && call.flag(i + 3)))
    return std::nullopt;
  return Options{dtype, device};
}

ScalarType default_dtype() {
  return c10::typeMetaToScalarType(c10::get_default_dtype());
}

/// The dtype that full() and scalar tensors take from a number.
ScalarType dtype_of_number(const c10::Scalar& number) {
  if (number.isBoolean()) return ScalarType::Bool;
  return number.isIntegral(false) ? ScalarType::Long : default_dtype();
}

bool filled(Call& call, const RuleRow& row) {
  const Form& form = kForms[row.variant];
  const bool is_size = form.fill != kNone && call.arg(form.fill).isSymInt(),
             is_float = form.fill != kNone && number_behind(call.arg(form.fill)).defined();
  const c10::Scalar number = form.fill == kNone ? c10::Scalar(form.value)
                             : is_size          ? c10::Scalar(int64_t{0})
                             : is_float         ? c10::Scalar(0.0)
                                                : call.number(form.fill);
  ScalarType dtype = default_dtype();
  c10::Device device(c10::kCPU);
  if (row.variant == kFull) dtype = dtype_of_number(number);
  if (form.like != kNone) {
    dtype = call.tensor(form.like).scalar_type();
    device = call.tensor(form.like).device();
  }
  const auto wanted = options(call, form.dtype, dtype, device);
  if (!wanted || number.isComplex()) return false;
  call.set_device(wanted->device);
  Sizes sizes, strides;
  if (form.sizes != kNone) {
    sizes = call.ints(form.sizes);
  } else if (form.like != kNone) {
    const DimsRef like = dims_of(call.tensor(form.like));
    sizes.assign(like.begin(), like.end());
  }
  for (const Dim size : sizes)
    if (size < 0) return false;
  const bool has_format = form.format != kNone && call.has(form.format);
  const auto format = has_format                                   ? call.arg(form.format).toMemoryFormat()
                      : form.format != kNone && form.like != kNone ? c10::MemoryFormat::Preserve
                                                                   : c10::MemoryFormat::Contiguous;
  if (form.strides != kNone)
    strides = call.ints(form.strides);
  else if (format == c10::MemoryFormat::Preserve)
    strides = preserved_strides(sizes, strides_of(call.tensor(form.like)));
  else
    strides = format_strides(sizes, format);
  if (!is_dense(sizes, strides) && call.entry.mode == OpEntry::Mode::functional)
    return call.give_tensor(call.recorder.wrap_gapped(nullptr, wanted->dtype, wanted->device, sizes, strides, 0));
  const ir::Type* type = call.type(wanted->dtype, sizes, strides);
  if (!is_size && !is_float) return call.give(call.full(type, number));
  ir::Value* one =
      is_size ? number_of(call.graph(), call.dim(form.fill), to_device(call.device()), to_dtype(wanted->dtype))
              : call.cast(call.operand(form.fill)->value, to_dtype(wanted->dtype));
  return call.give(
      call.copy(call.node(Op::expand, {one}, call.type(wanted->dtype, sizes, Sizes(sizes.size(), 0))), type));
}

/// arange(end), arange(start, end), arange(start, end, step): variant is the number of those.
/// arange of sizes: start and end are integers, the step is one above 0.
bool counted(Call& call, const RuleRow& row) {
  const Dim start = row.variant > 1 ? call.dim(0) : Dim(0), end = call.dim(row.variant > 1 ? 1 : 0);
  const auto wanted = options(call, row.variant, ScalarType::Long, c10::kCPU);
  if (!wanted || wanted->dtype == ScalarType::Bool || end < start) return false;
  // That no number is beyond int64 is not seen where all that is left of them is how far apart they lie.
  constexpr int64_t largest = int64_t{1} << 53;
  if (!start.is_number() && (start < -largest || end > largest)) return false;
  call.set_device(wanted->device);
  const Dim step = row.variant > 2 ? call.integer(2) : 1;
  const Sizes sizes{ceil_div(end - start, step)};
  const ScalarType counter = c10::isIntegralType(wanted->dtype, false) ? ScalarType::Long : ScalarType::Double;
  const ir::Type* type = call.contiguous(counter, sizes);
  ir::Value* value =
      call.cast(call.node(Op::iota, {}, call.contiguous(ScalarType::Long, sizes)), to_dtype(counter));
  if (step != 1) value = call.node(Op::mul, {value, call.scalar(counter, static_cast<int64_t>(step))}, type);
  if (start != 0) {
    ir::Value* first = number_of(call.graph(), start, to_device(call.device()), to_dtype(counter));
    value = call.node(Op::add, {value, first}, type);
  }
  return call.give(call.cast(value, to_dtype(wanted->dtype)));
}

bool arange(Call& call, const RuleRow& row) {
  bool any_size = false, all_integers = true;
  for (int i = 0; i < row.variant; ++i) {
    any_size |= call.arg(i).isSymInt();
    all_integers &= call.arg(i).isSymInt() || call.arg(i).isInt();
  }
  if (any_size && all_integers && (row.variant < 3 || (call.arg(2).isInt() && call.integer(2) > 0)))
    return counted(call, row);
  c10::Scalar start = row.variant > 1 ? call.number(0) : c10::Scalar(0);
  c10::Scalar end = call.number(row.variant > 1 ? 1 : 0);
  c10::Scalar step = row.variant > 2 ? call.number(2) : c10::Scalar(1);
  const bool integral = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const auto wanted = options(call, row.variant, integral ? ScalarType::Long : default_dtype(), c10::kCPU);
  if (!wanted || wanted->dtype == ScalarType::Bool) return false;
  call.set_device(wanted->device);
  const bool whole = c10::isIntegralType(wanted->dtype, false);
  if (whole && !integral) {
    // Only of int64 are the ends cut off before elements are counted.
    if (wanted->dtype != ScalarType::Long) return false;
    for (c10::Scalar* number : {&start, &end, &step}) *number = number->toLong();
  }
  if (step.toDouble() == 0) return false;
  const double span =
      whole ? static_cast<double>(end.toLong() - start.toLong()) : end.toDouble() - start.toDouble();
  const double length = std::ceil(span / step.toDouble());
  if (span / step.toDouble() < 0 || !std::isfinite(length)) return false;
  const Sizes sizes{static_cast<int64_t>(length)};
  ir::Value* value = call.node(Op::iota, {}, call.contiguous(ScalarType::Long, sizes));
  // Eager counts in double (int64 for integers) and rounds once.
  const ScalarType counter = whole ? ScalarType::Long : ScalarType::Double;
  const ir::Type* type = call.contiguous(counter, sizes);
  value = call.cast(value, to_dtype(counter));
  if (step.toDouble() != 1) value = call.node(Op::mul, {value, call.scalar(counter, step)}, type);
  if (start.toDouble() != 0) value = call.node(Op::add, {value, call.scalar(counter, start)}, type);
  return call.give(call.cast(value, to_dtype(wanted->dtype)));
}

/// Row numbers [rows, 1] and column numbers [1, columns] as i64.
struct Indices {
  ir::Value *rows, *columns;
};
Indices indices(Call& call, Dim rows, Dim columns) {
  const auto counter = [&](Dim size, DimsRef shape) {
    ir::Value* iota = call.node(Op::iota, {}, call.contiguous(ScalarType::Long, {size}));
    return call.node(Op::reshape, {iota}, call.contiguous(ScalarType::Long, shape));
  };
  return {counter(rows, {rows, 1}), counter(columns, {1, columns})};
}

/// eye(n) and eye(n, m): variant is the number of those.
bool eye(Call& call, const RuleRow& row) {
  const Dim rows = call.dim(0), columns = row.variant > 1 ? call.dim(1) : rows;
  const auto wanted = options(call, row.variant, default_dtype(), c10::kCPU);
  if (!wanted || rows < 0 || columns < 0) return false;
  call.set_device(wanted->device);
  const Indices at = indices(call, rows, columns);
  const Sizes sizes{rows, columns};
  ir::Value* diagonal = call.node(Op::eq, {at.rows, at.columns}, call.contiguous(ScalarType::Bool, sizes));
  return call.give(call.cast(diagonal, to_dtype(wanted->dtype)));
}

/// tril(self, diagonal) keeps column - row <= diagonal, triu the other side.
bool triangle(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || x->sizes.size() < 2) return false;
  const size_t rank = x->sizes.size();
  const Sizes plane{x->sizes[rank - 2], x->sizes[rank - 1]};
  const Indices at = indices(call, plane[0], plane[1]);
  ir::Value* distance = call.node(Op::sub, {at.columns, at.rows}, call.contiguous(ScalarType::Long, plane));
  ir::Value* keep = call.node(row.op, {distance, call.scalar(ScalarType::Long, call.integer(1))},
                              call.contiguous(ScalarType::Bool, plane));
  return call.give(
      call.node(Op::where, {keep, x->value, call.scalar(x->dtype, 0)}, call.contiguous(x->dtype, x->sizes)));
}

/// Small tensors that arguments without tensors decide: computed now, a constant of the program.
bool folded(Call& call, const RuleRow&) {
  constexpr int64_t most_elements = 1 << 16;
  if (call.entry.mode != OpEntry::Mode::functional) return false;
  const bool elsewhere = std::ranges::any_of(
      call.arguments, [](const c10::IValue& value) { return value.isDevice() && !value.toDevice().is_cpu(); });
  if (elsewhere) return false;
  torch::jit::Stack stack(call.arguments.begin(), call.arguments.end());
  call.entry.op.callBoxed(stack);
  const at::Tensor& real = stack[0].toTensor();
  if (!real.is_cpu() || !is_kernel_dtype(real.scalar_type()) || real.numel() > most_elements) return false;
  call.set_device(real.device());
  return call.give(call.recorder.value_of(call.recorder.add_private_constant(real)));
}

}  // namespace

std::span<const RuleRow> factory_rules() {
  static constexpr RuleRow rows[] = {
      {"full", filled, Op::input, kFull},
      {"zeros", filled, Op::input, kZeros},
      {"ones", filled, Op::input, kOnes},
      {"empty.memory_format", filled, Op::input, kEmpty},
      {"empty_strided", filled, Op::input, kEmptyStrided},
      {"full_like", filled, Op::input, kFullLike},
      {"zeros_like", filled, Op::input, kZerosLike},
      {"ones_like", filled, Op::input, kOnesLike},
      {"empty_like", filled, Op::input, kEmptyLike},
      {"new_full", filled, Op::input, kNewFull},
      {"new_zeros", filled, Op::input, kNewZeros},
      {"new_ones", filled, Op::input, kNewOnes},
      {"new_empty", filled, Op::input, kNewEmpty},
      {"new_empty_strided", filled, Op::input, kNewEmptyStrided},
      {"scalar_tensor", filled, Op::input, kScalarTensor},
      {"arange", arange, Op::iota, 1},
      {"arange.start", arange, Op::iota, 2},
      {"arange.start_step", arange, Op::iota, 3},
      {"eye", eye, Op::eq, 1},
      {"eye.m", eye, Op::eq, 2},
      {"linspace", folded},
      {"logspace", folded},
      {"tril_indices", folded},
      {"triu_indices", folded},
      {"tril", triangle, Op::le},
      {"triu", triangle, Op::ge},
  };
  return rows;
}

}  // namespace braze::capture
