// Calls that ATen refuses, for the number or the type that it is given, where a rule would compute something.
#include "capture/gates.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "capture/arguments.h"
#include "capture/changed_switches.h"
#include "capture/devices.h"
#include "capture/numbers_in_calls.h"
#include "capture/size_node.h"
#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using c10::ScalarType;

/// Operators with rules for more types than some version of ATen's kernels takes.
struct Types {
  std::string_view name;
  bool (*refused)(ScalarType);
};
bool is_integral(ScalarType dtype) {
  return c10::isIntegralType(dtype, true);
}
bool is_bool(ScalarType dtype) {
  return dtype == ScalarType::Bool;
}
constexpr Types kTypes[] = {
    {"adaptive_max_pool2d", is_integral},
    {"adaptive_max_pool3d", is_integral},
    {"avg_pool3d", c10::isReducedFloatingType},
    {"im2col", is_integral},
    {"reflection_pad1d", is_bool},
    {"reflection_pad2d", is_bool},
    {"reflection_pad3d", is_bool},
    {"replication_pad1d", is_bool},
    {"replication_pad2d", is_bool},
    {"replication_pad3d", is_bool},
};

/// Operators of which torch.use_deterministic_algorithms() asks more than their rules give: which of several writes
/// to one place is the last, and what memory holds that nobody has written.
constexpr std::string_view kMoreDeterministic[] = {
    "empty",           "empty_like",        "empty_permuted", "empty_strided",     "index_copy",
    "index_put",       "index_put_",        "new_empty",      "new_empty_strided", "put",
    "_index_put_impl", "_unsafe_index_put", "scatter",
};

/// Likewise on a GPU alone. Those that our kernels combine by atomic operations, in any order:
constexpr std::string_view kAddedInAnyOrder[] = {
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "embedding_dense_backward",
    "index_add",
    "index_reduce",
    "max_pool2d_with_indices_backward",
    "scatter_add",
    "scatter_reduce",
};
/// and those of which eager says that there is no deterministic form, by an error or a warning. Source:
/// torch.use_deterministic_algorithms.
constexpr std::string_view kNotDeterministic[] = {
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d_backward",
    "avg_pool3d_backward",
    "cumsum",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "max_pool3d_with_indices_backward",
    "max_unpool2d",
    "max_unpool3d",
    "nll_loss2d_backward",
    "nll_loss2d_forward",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad1d_backward",
    "replication_pad2d_backward",
    "replication_pad3d_backward",
    "upsample_bicubic2d_backward",
    "upsample_bilinear2d_backward",
    "upsample_linear1d_backward",
    "upsample_trilinear3d_backward",
};

/// Of an operator with a rule.
template <size_t count>
bool is_one_of(const std::string_view (&names)[count], const OpEntry& entry) {
  const std::string_view name = entry.rule->name.substr(0, entry.rule->name.find('.'));
  return std::ranges::find(names, name) != std::end(names);
}

bool asks_for_more(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  if (!at::globalContext().deterministicAlgorithms() || !entry.rule) return false;
  if (is_one_of(kMoreDeterministic, entry)) return true;
  const std::optional<c10::Device> device = device_of(arguments).device;
  return device && device->is_cuda() && (is_one_of(kAddedInAnyOrder, entry) || is_one_of(kNotDeterministic, entry));
}

/// Whether ATen's own conversion raises.
bool overflows(const c10::Scalar& number, ScalarType dtype) {
  try {
    switch (dtype) {
#define BRAZE_CASE(type, name) \
  case ScalarType::name: (void)number.to<type>(); break;
      AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, BRAZE_CASE)
#undef BRAZE_CASE
      default: break;
    }
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

/// The types that a call's numbers may be converted to: those of its tensors, and of its result.
class NumberTypes {
 public:
  NumberTypes(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) {
    bool any = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::IValue& argument = arguments[i];
      if (argument.isInt() && schema.arguments()[i].name() == "dtype") {
        add(argument.toScalarType());
        any = true;
      }
      for_each_tensor({&argument, 1}, [&](const at::Tensor& tensor, uint32_t, int32_t) {
        if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
        add(tensor.scalar_type());
        any = true;
      });
    }
    if (!any || types_.empty()) add(c10::get_default_dtype_as_scalartype());
  }
  /// ATen's own conversion to one of them raises, or takes what is not zero for zero, as a kernel that keeps the
  /// number as a double does not.
  bool refuse(const c10::Scalar& number) const {
    if (number.isComplex() || number.isSymbolic()) return false;
    const bool vanishes =
        number.isFloatingPoint() && number.toDouble() != 0 && narrow_ && static_cast<float>(number.toDouble()) == 0;
    return vanishes || std::ranges::any_of(types_, [&](ScalarType type) { return overflows(number, type); });
  }
  /// Every size fits into each of them.
  bool hold_sizes() const { return std::ranges::all_of(types_, holds_sizes); }
  /// No integers, of which none holds what is infinite.
  bool hold_floats() const { return std::ranges::none_of(types_, is_integral); }
  /// As of refuse() above, of a parameter that is a double, which kernels convert to the type that they compute in.
  bool refuse(double number) const {
    const auto narrowed = static_cast<float>(number);
    return narrow_ && std::isfinite(number) && (std::isinf(narrowed) || (narrowed == 0 && number != 0));
  }

 private:
  void add(ScalarType type) {
    if (type != ScalarType::Bool) types_.push_back(type);
    narrow_ |= c10::isFloatingType(type) && type != ScalarType::Double;
  }
  c10::SmallVector<ScalarType, 4> types_;
  bool narrow_ = false;  ///< One of them is computed with in f32.
};

/// Numbers that every type but bool holds; indices and sizes are such, as a rule.
bool is_small(const c10::IValue& value) {
  if (value.isInt()) return value.toInt() >= 0 && value.toInt() <= 127;
  const double number = std::abs(value.toDouble());
  return number == 0 || (number >= 1e-7 && number <= 127 && value.toDouble() > 0) || std::isnan(number);
}

/// The type of a parameter, without its being optional.
c10::TypeKind kind_of(const c10::FunctionSchema& schema, size_t i) {
  const c10::TypePtr type = schema.arguments()[i].type();
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType()->kind() : type->kind();
}

/// Rules are about real numbers; among tensors of real ones ATen may raise, or drop the imaginary part.
bool has_complex_number(std::span<const c10::IValue> arguments) {
  return std::ranges::any_of(arguments, [](const c10::IValue& value) { return value.isComplexDouble(); });
}

bool has_refused_number(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) {
  std::optional<NumberTypes> types;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = arguments[i];
    const bool is_large = value.isUnsigned();  // From 2^63 on.
    if (!is_large && ((!value.isInt() && !value.isDouble()) || is_small(value))) continue;
    const c10::TypeKind kind = kind_of(schema, i);
    const bool is_number = kind == c10::TypeKind::NumberType;
    if (!is_number && kind != c10::TypeKind::FloatType) continue;
    if (!types) types.emplace(schema, arguments);
    if (is_number ? types->refuse(value.toScalar()) : types->refuse(value.toDouble())) return true;
  }
  return false;
}

}  // namespace

void check_switches(const OpEntry& entry) {
  if (!have_switches_changed()) return;
  const bool asks = !entry.rule || is_one_of(kMoreDeterministic, entry) || is_one_of(kAddedInAnyOrder, entry) ||
                    is_one_of(kNotDeterministic, entry);
  if (asks)
    throw UserError(concat("braze: ", entry.op.schema().name(),
                           " comes behind a change of torch.use_deterministic_algorithms(), for which it asks"));
}

void refuse_meta(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  bool is_meta = std::ranges::any_of(
      arguments, [](const c10::IValue& one) { return one.isDevice() && one.toDevice().is_meta(); });
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) { is_meta |= tensor.is_meta(); });
  if (is_meta) throw UserError(concat("braze: ", entry.op.schema().name(), " is about tensors on the device meta"));
}

void refuse_resize(const OpEntry& entry) {
  throw UserError(
      concat("braze: ", entry.op.schema().name(),
             " resizes a tensor that is an input, a view or not empty, which cannot be traced. Pass one "
             "of the right size."));
}

void specialise_narrow_numbers(const OpEntry& entry, std::span<c10::IValue> arguments) {
  const c10::FunctionSchema& schema = entry.op.schema();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_float = can_be_fixed(arguments[i]);
    if ((!arguments[i].isSymInt() && !is_float) || kind_of(schema, i) != c10::TypeKind::NumberType) continue;
    const NumberTypes types(schema, arguments);
    if (!types.hold_sizes() || (is_float && !types.hold_floats())) arguments[i] = specialised(arguments[i]);
  }
}

bool orders_complex(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  constexpr std::string_view kOrders[] = {"aten::lt", "aten::le", "aten::gt", "aten::ge"};
  const auto is_complex = [](const c10::IValue& value) {
    return value.isTensor() ? value.toTensor().is_complex() : value.isComplexDouble();
  };
  return std::ranges::find(kOrders, entry.op.schema().name()) != std::end(kOrders) &&
         std::ranges::any_of(arguments, is_complex);
}

bool may_be_refused(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  if (asks_for_more(entry, arguments) || has_complex_number(arguments) ||
      has_refused_number(entry.op.schema(), arguments))
    return true;
  if (arguments.empty() || !arguments[0].isTensor() || !arguments[0].toTensor().defined()) return false;
  std::string_view name = entry.op.schema().name();
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  if (name.ends_with('_')) name.remove_suffix(1);
  const ScalarType dtype = arguments[0].toTensor().scalar_type();
  if (const auto row = std::ranges::find(kTypes, name, &Types::name); row != std::end(kTypes))
    if (row->refused(dtype)) return true;
  // Elements of another type are read by those that fill a part with one, and converted as numbers are.
  if (name != "masked_fill" && name != "index_fill") return false;
  const c10::IValue& filler = arguments[name == "masked_fill" ? 2 : 3];
  if (!filler.isTensor() || !filler.toTensor().defined()) return false;
  const at::Tensor& value = filler.toTensor();
  if (value.unsafeGetTensorImpl()->is_wrapped_number())
    return !as_tracer(value) && overflows(at::_local_scalar_dense(value), dtype);
  return value.scalar_type() != dtype;
}

}  // namespace braze::capture
