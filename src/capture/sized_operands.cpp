#include "capture/sized_operands.h"

#include <algorithm>

#include "capture/arguments.h"
#include "capture/numbers_in_calls.h"
#include "capture/size_node.h"
#include "support/error.h"

namespace braze::capture {

bool is_varied(Recorder& recorder, const at::Tensor& tensor) {
  if (as_tracer(tensor) || !recorder.is_from_outside(tensor)) return false;
  const ir::Type& type = *recorder.view_of(tensor)->type;
  return !type.sizes.is_constant() || !type.strides.is_constant();
}

bool has_expressions(std::span<const c10::IValue> arguments) {
  bool any = std::ranges::any_of(
      arguments, [](const c10::IValue& argument) { return has_symbols(argument) && !can_be_fixed(argument); });
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    any |= !dims_of(tensor).is_numbers() || !strides_of(tensor).is_numbers();
    any |= as_tracer(tensor) && !as_tracer(tensor)->view()->offset.is_number();
  });
  return any;
}

/// PyTorch's parser puts this number where a torch.SymInt stands for a tensor (torch/csrc/utils/python_arg_parser).
static constexpr int64_t size_as_tensor = 7777777;

void refuse_size_as_tensor(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    if (as_tracer(tensor) || !tensor.unsafeGetTensorImpl()->is_wrapped_number() || !tensor.is_cpu()) return;
    if (tensor.scalar_type() == c10::kLong && *tensor.const_data_ptr<int64_t>() == size_as_tensor)
      throw UserError(concat("braze: ", entry.op.schema().name(),
                             " is given a size that varies in the place of a tensor; give it int() of that"));
  });
}

bool specialise_operands(Recorder& recorder, std::span<c10::IValue> arguments) {
  const size_t before = recorder.symbols()->specialisations;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    dims_of(tensor).numbers();
    strides_of(tensor).numbers();
    if (as_tracer(tensor)) static_cast<void>(static_cast<int64_t>(as_tracer(tensor)->view()->offset));
  });
  for (c10::IValue& argument : arguments)
    if (!can_be_fixed(argument)) argument = specialised(argument);
  return recorder.symbols()->specialisations != before;
}

}  // namespace braze::capture
