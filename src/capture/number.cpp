#include "capture/number.h"

#include <ATen/ATen.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymNodeImpl.h>

#include <utility>

#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {
namespace {

class NumberNode final : public c10::SymNodeImpl, public HasNumber {
 public:
  explicit NumberNode(at::Tensor number) : number_(std::move(number)) {}
  at::Tensor number_of_trace() const override { return number_; }

  bool is_float() override { return true; }
  bool is_int() override { return false; }
  bool is_bool() override { return false; }
  bool is_nested_int() const override { return false; }
  bool is_symbolic() override { return true; }
  bool is_constant() override { return false; }
  bool has_hint() override { return false; }
  c10::SymNode clone() override { return c10::make_intrusive<NumberNode>(number_); }
  std::string str() override { return "number"; }
  std::string _graph_repr() override { return str(); }
  double guard_float(const char*, int64_t) override {
    throw UserError("braze: an operator wants the value of a number that inputs decide");
  }

 private:
  const at::Tensor number_;
};

}  // namespace

at::Tensor to_number(const at::Tensor& tensor) {
  at::Tensor number = tensor.detach().reshape({}).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && as_tracer(tensor) && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         tensor.scalar_type() == at::kDouble;
}

c10::SymFloat to_sym_float(const at::Tensor& number) {
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<NumberNode>(number)));
}

at::Tensor number_behind(const c10::IValue& value) {
  if (!value.isSymFloat()) return {};
  const c10::SymFloat number = value.toSymFloat();
  if (!number.is_symbolic()) return {};
  const auto* node = dynamic_cast<const HasNumber*>(number.toSymNodeImplUnowned());
  return node ? node->number_of_trace() : at::Tensor();
}

}  // namespace braze::capture
