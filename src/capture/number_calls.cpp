#include "capture/number_calls.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <vector>

#include "capture/arguments.h"
#include "capture/number.h"
#include "capture/numbers_in_calls.h"
#include "capture/size_node.h"

namespace braze::capture {
namespace {

std::span<c10::IValue> arguments_of(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  return {stack.data() + stack.size() - count, count};
}

/// Nothing of PyTorch's that lies between here and the tracer's kernels has a part in the call: no gradient is
/// wanted, no cast is made, no transform is there.
bool goes_straight_down(std::span<const c10::IValue> arguments) {
  bool plain = true;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    plain &= (tensor.is_cpu() || tensor.is_cuda()) && !at::autocast::is_autocast_enabled(tensor.device().type()) &&
             (as_tracer(tensor) || is_number) && !(at::GradMode::is_enabled() && tensor.requires_grad());
  });
  return plain;
}

/// Results are views of arguments, along a dimension that varies: which one it is must be known.
bool views_along_varying(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) {
  const bool gives_views = std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
  for (size_t i = 0; gives_views && i < arguments.size(); ++i)
    if (can_be_fixed(arguments[i]) && schema.arguments()[i].name().starts_with("dim")) return true;
  return false;
}

}  // namespace

void put_parsed_numbers(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ParsedNumbers::put(op, arguments_of(op, *stack));
}

bool record_number_call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(op, *stack);
  bool any = has_size_as_integer(op, arguments);
  for (size_t i = 0; i < arguments.size(); ++i)
    any |= can_be_fixed(arguments[i]) && op.schema().arguments()[i].type()->kind() != c10::TypeKind::NumberType;
  if (!any || !op.hasKernelForDispatchKey(kKey) || !goes_straight_down(arguments)) return false;
  if (views_along_varying(op.schema(), arguments)) return false;
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    for_each_tensor(arguments.subspan(i, 1),
                    [&](const at::Tensor& tensor, uint32_t, int32_t) { written.push_back(tensor); });
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(c10::DispatchKeySet(kKey), stack);
  }
  for (const at::Tensor& tensor : written) torch::autograd::impl::bump_version(tensor);
  return true;
}

bool numbers_decide_shapes(const OpEntry& entry) {
  const std::string& name = entry.op.schema().name();
  return name == "aten::arange" || name == "aten::range";
}

bool takes_number(const c10::IValue& argument, bool on_cpu) {
  return can_be_fixed(argument) &&
         (on_cpu ? number_behind(argument).is_cpu() : quotient_behind(argument).has_value());
}

void put_number(CallPayload& payload, uint32_t argument, const c10::IValue& number, bool on_cpu,
                const std::function<uint32_t(const at::Tensor&)>& operand) {
  payload.stack[argument] = 0.0;  // The payload keeps nothing of the trace.
  if (on_cpu) {
    payload.slots.push_back({argument, kNumberSlot, operand(number_behind(number))});
    return;
  }
  const auto [significand, divisor] = quotient_behind(number).value();
  payload.quotients.push_back({argument, significand, divisor});
}

void redispatch_with_numbers(Recorder& recorder, const c10::OperatorHandle& op, c10::DispatchKeySet below,
                             torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(op, *stack);
  fix_lists_of_integers(op, arguments);
  if (std::ranges::none_of(arguments, can_be_fixed)) return op.redispatchBoxed(below, stack);
  const std::vector<c10::IValue> kept(arguments.begin(), arguments.end());
  const size_t others = stack->size() - kept.size();
  const Recorder::Mark before = recorder.mark();
  try {
    op.redispatchBoxed(below, stack);
  } catch (const std::exception&) {
    if (!recorder.only_computed_since(before)) throw;
    stack->resize(others);
    for (const c10::IValue& value : kept) stack->push_back(can_be_fixed(value) ? specialised(value) : value);
    op.redispatchBoxed(below, stack);
  }
}

}  // namespace braze::capture
