// Scans: cumsum and its kin. Results are contiguous, as eager's are.
#include "capture/call.h"

namespace braze::capture {
namespace {

ir::Value* scanned(Call& call, Op op, ir::Value* value, DType dtype, int64_t dim) {
  return call.node(op, {value}, call.contiguous(to_scalar_type(dtype), to_ref(value->type->sizes)), {{"dim", dim}});
}

/// cumsum and cumprod: (self, dim, dtype)
bool accumulate(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  const bool integral = c10::isIntegralType(x->dtype, true);
  const ScalarType dtype = call.dtype(2).value_or(integral ? ScalarType::Long : x->dtype);
  if (!dim || !is_kernel_dtype(dtype) || dtype == ScalarType::Bool) return false;
  ir::Value* value = call.cast(x->value, to_dtype(dtype));
  return call.give(x->sizes.empty() ? value : scanned(call, row.op, value, to_dtype(dtype), *dim));
}

/// logcumsumexp(self, dim)
bool log_sum_exp(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || !c10::isFloatingType(x->dtype)) return false;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  if (!dim) return false;
  return call.give(x->sizes.empty() ? x->value : scanned(call, row.op, x->value, to_dtype(x->dtype), *dim));
}

/// cummax and cummin: (self, dim) -> (values, indices)
bool extreme(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number()) return false;
  const auto dim = wrap(call.integer(1), static_cast<int64_t>(x->sizes.size()));
  if (!dim) return false;
  if (x->sizes.empty()) {
    call.give(x->value);
    return call.give(call.scalar(ScalarType::Long, 0));
  }
  call.give(scanned(call, row.op, x->value, to_dtype(x->dtype), *dim));
  const Op index = row.op == Op::cummax ? Op::cumargmax : Op::cumargmin;
  return call.give(scanned(call, index, x->value, DType::i64, *dim));
}

}  // namespace

std::span<const RuleRow> scan_rules() {
  static constexpr RuleRow rows[] = {
      {"cumsum", accumulate, Op::cumsum},
      {"cumprod", accumulate, Op::cumprod},
      {"logcumsumexp", log_sum_exp, Op::logcumsumexp},
      {"cummax", extreme, Op::cummax},
      {"cummin", extreme, Op::cummin},
  };
  return rows;
}

}  // namespace braze::capture
