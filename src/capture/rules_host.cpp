// Operators that answer a question of the user's Python code.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "capture/call.h"
#include "capture/gate.h"
#include "capture/number.h"
#include "capture/pointwise.h"
#include "capture/size_node.h"

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
bool expect(Call& call, bool expected) {
  const std::optional<Operand> x = call.operand(0);
  if (!x || x->is_number() || numel(x->sizes) != 1) return false;
  Pointwise p(call, ScalarType::Bool, {&*x});
  if (!p.valid()) return false;
  ir::Value* value = x->value;
  if (x->dtype != ScalarType::Bool || !expected) value = p.test(Op::logical_not, value);
  if (x->dtype != ScalarType::Bool && expected) value = p.test(Op::logical_not, value);
  p.test(Op::expected, value);
  return true;
}

bool assert_nonzero(Call& call, const RuleRow&) {
  return expect(call, true);
}

/// A composite that checks what it is given by at::is_scalar_tensor_true, which asks whether a bool equals a fresh
/// one that is true. It raises where the answer is another one, and goes on no other way.
struct Checking {
  std::string_view composite;
  bool answer;
};
constexpr Checking kChecking[] = {{"aten::quantile", true}, {"aten::nanquantile", true}, {"aten::istft", false}};

/// equal() as such a check: one that the program makes. On the CPU, where an error is known before anything is done
/// with the results.
bool check_equal(Call& call, const RuleRow&) {
  const auto* checking = std::ranges::find(kChecking, running_composite(), &Checking::composite);
  if (checking == std::end(kChecking)) return false;
  const at::Tensor &checked = call.tensor(0), &truth = call.tensor(1);
  if (!checked.is_cpu() || checked.scalar_type() != at::kBool || checked.dim() != 0 || truth.dim() != 0)
    return false;
  if (call.recorder.known().find(checked).defined()) return false;
  return expect(call, checking->answer) && call.give_tensor(checking->answer);
}

bool is_same_size(Call& call, const RuleRow&) {
  const auto sizes = [&](size_t k) { return DimsRef(call.recorder.view_of(call.tensor(k))->type->sizes); };
  return call.give_tensor(sizes(0) == sizes(1));
}

/// Asked by forward differentiation of a tangent, which it takes as it is if so.
bool has_same_storage_numel(Call& call, const RuleRow&) {
  const auto numel = [&](size_t k) {
    const at::Tensor& tensor = call.tensor(k);
    return dim_of(tensor.storage().sym_nbytes()) / static_cast<int64_t>(tensor.element_size());
  };
  return call.give_tensor(numel(0) == numel(1));
}

}  // namespace

std::span<const RuleRow> host_rules() {
  static constexpr RuleRow rows[] = {
      {"_local_scalar_dense", read_number},  {"_assert_async", assert_nonzero},
      {"_assert_async.msg", assert_nonzero}, {"equal", check_equal},
      {"is_same_size", is_same_size},        {"_has_same_storage_numel", has_same_storage_numel},
  };
  return rows;
}

}  // namespace braze::capture
