// Calls that ATen refuses, for the number or the type that it is given, where a rule would compute something.
#include "capture/gates.h"

#include <algorithm>

#include "capture/tracer_tensor.h"

namespace braze::capture {
namespace {

using c10::ScalarType;

/// Operators that convert numbers to the dtype of argument 0 and raise if they do not fit.
struct Numbers {
  std::string_view name;  ///< Of the functional form, without overload.
  int8_t first, second = -1;
};
constexpr Numbers kNumbers[] = {
    {"fill", 1},         {"masked_fill", 2},
    {"full_like", 1},    {"new_full", 2},
    {"index_fill", 3},   {"clamp", 1, 2},
    {"clamp_min", 1},    {"clamp_max", 1},
    {"add", 2},          {"sub", 2},
    {"rsub", 2},         {"addcmul", 3},
    {"scatter", 3},      {"constant_pad_nd", 2},
    {"threshold", 1, 2}, {"hardtanh", 1, 2},
    {"hardshrink", 1},   {"fill_diagonal", 1},
};

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

template <typename Row>
const Row* row_of(std::span<const Row> rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
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

bool is_refused(const c10::IValue& value, ScalarType dtype) {
  return value.isScalar() && !value.isSymFloat() && !value.isComplexDouble() && overflows(value.toScalar(), dtype);
}

}  // namespace

bool may_be_refused(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  if (arguments.empty()) return false;
  std::string_view name = entry.op.schema().name();
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  if (name.ends_with('_')) name.remove_suffix(1);
  if (name == "full") {
    const bool given = arguments.size() > 2 && !arguments[2].isNone() && arguments[2].isInt();
    return given && is_refused(arguments[1], arguments[2].toScalarType());
  }
  if (!arguments[0].isTensor() || !arguments[0].toTensor().defined()) return false;
  const ScalarType dtype = arguments[0].toTensor().scalar_type();
  if (const Types* row = row_of<Types>(kTypes, name); row && row->refused(dtype)) return true;
  const Numbers* row = row_of<Numbers>(kNumbers, name);
  if (!row) return false;
  for (const int8_t place : {row->first, row->second}) {
    if (place < 0 || static_cast<size_t>(place) >= arguments.size()) continue;
    if (is_refused(arguments[place], dtype)) return true;
  }
  // masked_fill by an element of another type reads it.
  if (name != "masked_fill" || !arguments[2].isTensor() || !arguments[2].toTensor().defined()) return false;
  const at::Tensor& value = arguments[2].toTensor();
  if (value.unsafeGetTensorImpl()->is_wrapped_number())
    return !as_tracer(value) && overflows(at::_local_scalar_dense(value), dtype);
  return value.scalar_type() != dtype;
}

}  // namespace braze::capture
