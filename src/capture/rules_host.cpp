// Operators that answer a question of the user's Python code.
#include "capture/call.h"
#include "capture/number.h"
#include "capture/pointwise.h"

namespace braze::capture {
namespace {

/// item(), float(t), `if t:`. Free if no input decides the value.
bool read_number(Call& call, const RuleRow&) {
  const at::Tensor& tensor = call.tensor(0);
  if (tensor.numel() != 1) return false;
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor)) return false;
  if (is_number(tensor) && !call.recorder.known().find(tensor).defined())
    return call.give_tensor(c10::Scalar(to_sym_float(tensor)));
  const at::Tensor real = call.recorder.known().materialize(tensor, "item()");
  return call.give_tensor(at::_local_scalar_dense(real));
}

/// A check that the program makes: what does not hold is an error once the program has run. Nobody waits for it.
bool assert_nonzero(Call& call, const RuleRow&) {
  const std::optional<Operand> x = call.operand(0);
  if (!x || x->is_number() || numel(x->sizes) != 1) return false;
  Pointwise p(call, ScalarType::Bool, {&*x});
  if (!p.valid()) return false;
  ir::Value* value = x->value;
  if (x->dtype != ScalarType::Bool) value = p.test(Op::logical_not, p.test(Op::logical_not, value));
  p.test(Op::expected, value);
  return true;
}

bool is_same_size(Call& call, const RuleRow&) {
  return call.give_tensor(call.tensor(0).sizes() == call.tensor(1).sizes());
}

/// Asked by forward differentiation of a tangent, which it takes as it is if so.
bool has_same_storage_numel(Call& call, const RuleRow&) {
  const auto numel = [](const at::Tensor& tensor) { return tensor.storage().nbytes() / tensor.element_size(); };
  return call.give_tensor(numel(call.tensor(0)) == numel(call.tensor(1)));
}

}  // namespace

std::span<const RuleRow> host_rules() {
  static constexpr RuleRow rows[] = {
      {"_local_scalar_dense", read_number},
      {"_assert_async", assert_nonzero},
      {"_assert_async.msg", assert_nonzero},
      {"is_same_size", is_same_size},
      {"_has_same_storage_numel", has_same_storage_numel},
  };
  return rows;
}

}  // namespace braze::capture
