#include "capture/sized_calls.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <optional>

#include "capture/arguments.h"
#include "capture/devices.h"
#include "capture/number.h"
#include "capture/number_calls.h"
#include "capture/numbers_in_calls.h"
#include "capture/shapes.h"
#include "capture/silent.h"
#include "capture/size_node.h"
#include "capture/traceable.h"
#include "capture/types.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using Arguments = std::span<const c10::IValue>;

/// Sizes of the results, in order; nullopt where the row does not know.
using SizesRule = std::optional<std::vector<Sizes>> (*)(Arguments arguments);

Sizes sizes_of(const c10::IValue& tensor) {
  const DimsRef sizes = dims_of(tensor.toTensor());
  return {sizes.begin(), sizes.end()};
}

std::optional<std::vector<Sizes>> as_first(Arguments arguments) {
  return std::vector{sizes_of(arguments[0])};
}

std::optional<std::vector<Sizes>> twice_as_first(Arguments arguments) {
  return std::vector{sizes_of(arguments[0]), sizes_of(arguments[0])};
}

/// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first): the output has a step
/// for each of the input's, the states are as they were.
std::optional<std::vector<Sizes>> recurrent(Arguments arguments) {
  const bool draws = arguments[5].toDouble() > 0 && arguments[6].toBool();
  const Sizes input = sizes_of(arguments[0]);
  if (draws || input.size() != 3) return std::nullopt;
  std::vector<at::Tensor> states;
  if (arguments[1].isTensor())
    states.push_back(arguments[1].toTensor());
  else
    states = arguments[1].toTensorVector();
  const DimsRef state = dims_of(states[0]);
  if (state.size() != 3) return std::nullopt;
  const bool batch_first = arguments[8].toBool();
  const size_t batch = batch_first ? 0 : 1;
  if (state[1] != input[batch]) return std::nullopt;
  // A projection (LSTM) makes the output as wide as the first state.
  Sizes output = input;
  output[2] = state[2] * (arguments[7].toBool() ? 2 : 1);
  std::vector<Sizes> all{output};
  for (const at::Tensor& one : states) {
    const DimsRef sizes = dims_of(one);
    all.emplace_back(sizes.begin(), sizes.end());
  }
  return all;
}

/// (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa): without dropout.
std::optional<std::vector<Sizes>> attention(Arguments arguments) {
  const Sizes value = sizes_of(arguments[2]);
  if (!arguments[4].isDouble() || arguments[4].toDouble() != 0) return std::nullopt;
  Sizes sizes = sizes_of(arguments[0]);
  if (sizes.empty() || value.empty()) return std::nullopt;
  sizes.back() = value.back();
  return std::vector{sizes};
}

/// As the first operand and another one are broadcast.
std::optional<std::vector<Sizes>> as_two(Arguments arguments) {
  Sizes sizes = sizes_of(arguments[0]);
  if (!broadcast_into(sizes, sizes_of(arguments[1]))) return std::nullopt;
  return std::vector{sizes};
}

/// (self, pad, mode, value): pairs of (low, high) from the last dimension on.
std::optional<std::vector<Sizes>> padded(Arguments arguments) {
  Sizes sizes = sizes_of(arguments[0]);
  if (arguments[2].toStringView() != "constant" || !arguments[1].isIntList()) return std::nullopt;
  const auto pads = arguments[1].toDimVector();
  if (pads.size() % 2 != 0 || pads.size() / 2 > sizes.size()) return std::nullopt;
  for (size_t k = 0; k < pads.size(); ++k) sizes[sizes.size() - 1 - k / 2] += pads[k];
  return std::vector{sizes};
}

/// ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity): a loss for each of
/// the batch, or one. The lengths are read when it runs.
std::optional<std::vector<Sizes>> alignment_losses(Arguments arguments) {
  const Sizes steps = sizes_of(arguments[0]);
  const bool has_batch = steps.size() == 3, is_reduced = arguments[5].toInt() != at::Reduction::None;
  return std::vector{has_batch && !is_reduced ? Sizes{steps[1]} : Sizes{}};
}

/// im2col(self, kernel_size, dilation, padding, stride): a column a block.
std::optional<std::vector<Sizes>> columns(Arguments arguments) {
  const Sizes sizes = sizes_of(arguments[0]);
  if (sizes.size() < 3) return std::nullopt;
  const size_t lead = sizes.size() - 3;
  Dim rows = sizes[lead], blocks = 1;
  for (size_t k = 0; k < 2; ++k) {
    const auto number = [&](size_t i) {
      const auto numbers = arguments[i].toDimVector();
      return numbers[numbers.size() == 1 ? 0 : k];
    };
    for (size_t i = 1; i < 5; ++i)
      if (!arguments[i].isIntList() || arguments[i].toDimVector().empty()) return std::nullopt;
    const int64_t reach = number(2) * (number(1) - 1) + 1;
    const Dim room = sizes[lead + 1 + k] + 2 * number(3) - reach;
    if (number(4) < 1 || room < 0) return std::nullopt;
    rows *= number(1);
    blocks *= room / number(4) + 1;
  }
  Sizes result(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(lead));
  result.append({rows, blocks});
  return std::vector{result};
}

/// A chain of matrices, of which the first and the last may be a vector.
std::optional<std::vector<Sizes>> chain(Arguments arguments) {
  const auto matrices = arguments[0].toTensorVector();
  if (matrices.size() < 2) return std::nullopt;
  const DimsRef first = dims_of(matrices.front()), last = dims_of(matrices.back());
  Sizes sizes;
  if (first.size() == 2) sizes.push_back(first[0]);
  if (last.size() == 2) sizes.push_back(last[1]);
  return std::vector{sizes};
}

struct Row {
  std::string_view name, overload;
  SizesRule sizes;
  bool of_numbers = false;  ///< Only where it is given numbers that inputs decide, in the place of doubles.
  /// On a GPU it asks where its weights lie, which no tensor of a trace tells: a call whatever its sizes are.
  bool asks_for_memory = false;
};
constexpr Row rows[] = {
    {"aten::gru", "input", recurrent, false, true},
    {"aten::lstm", "input", recurrent, false, true},
    {"aten::rnn_tanh", "input", recurrent, false, true},
    {"aten::rnn_relu", "input", recurrent, false, true},
    {"aten::_transformer_encoder_layer_fwd", "", as_first},
    {"aten::sort", "", twice_as_first},
    {"aten::sort", "stable", twice_as_first},
    {"aten::argsort", "stable", as_first},
    {"aten::logcumsumexp", "", as_first},
    {"aten::_fft_c2c", "", as_first},
    {"aten::scaled_dot_product_attention", "", attention, true},
    {"aten::layer_norm", "", as_first, true},
    {"aten::group_norm", "", as_first, true},
    {"aten::rms_norm", "", as_first, true},
    {"aten::isclose", "", as_two, true},
    {"aten::pad", "", padded, true},
    {"aten::im2col", "", columns},
    {"aten::ctc_loss", "Tensor", alignment_losses},
    {"aten::linalg_multi_dot", "", chain},
    {"aten::chain_matmul", "", chain},
};

/// Strides of `sizes` in the order in which those of a real result lie; nullopt if they do not fill its memory.
std::optional<Sizes> strides_like(const at::Tensor& real, const Sizes& sizes) {
  if (static_cast<size_t>(real.dim()) != sizes.size()) return std::nullopt;
  Sizes strides = packed_strides(sizes, real.strides());
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k].hint() != real.sizes()[k] || strides[k].hint() != real.strides()[k]) return std::nullopt;
  return strides;
}

/// What the operator gives for zeros of the example's sizes.
std::optional<torch::jit::Stack> ask(const c10::OperatorHandle& op, Arguments arguments) {
  const RunForReal real;
  const at::NoGradGuard no_grad;
  const Silent silent;
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments)
    stack.push_back(
        map_tensors(example_behind(argument) ? *example_behind(argument) : argument, [](const at::Tensor& tensor) {
          Places sizes, strides;
          for (const Dim size : dims_of(tensor)) sizes.push_back(size.hint());
          for (const Dim stride : strides_of(tensor)) strides.push_back(stride.hint());
          return at::empty_strided(sizes, strides, tensor.options()).zero_();
        }));
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return stack;
}

bool is_of_cpu(Arguments arguments) {
  return device_of(arguments).device.value_or(c10::Device(c10::kCPU)).is_cpu();
}

/// Sizes that vary are among the arguments, or numbers; no gradient is wanted of them, and they have texts. The
/// call stands above autocast, which would cast for it.
bool is_for_table(const Row& row, Arguments arguments) {
  const bool on_cpu = is_of_cpu(arguments);
  const auto is_taken = [on_cpu](const c10::IValue& one) { return takes_number(one, on_cpu); };
  const bool has_numbers = std::ranges::any_of(arguments, is_taken);
  bool any = has_numbers || (row.asks_for_memory && !on_cpu), plain = !at::autocast::is_autocast_enabled(at::kCPU);
  if (row.of_numbers && !has_numbers) return false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    any |= !dims_of(tensor).is_numbers() || !strides_of(tensor).is_numbers();
    plain &= !(at::GradMode::is_enabled() && tensor.requires_grad()) && is_strided(tensor);
    plain &= tensor.is_cpu() || !at::autocast::is_autocast_enabled(at::kCUDA);
  });
  return any && plain && std::ranges::none_of(arguments, [&](const c10::IValue& one) {
           return has_symbols(one) && !is_taken(one);
         });
}

}  // namespace

bool record_sized_call(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::OperatorName& name = op.operator_name();
  const auto row = std::ranges::find_if(
      rows, [&](const Row& one) { return one.name == name.name && one.overload == name.overload_name; });
  if (row == std::end(rows) || (!recorder.symbols() && !row->asks_for_memory)) return false;
  const size_t count = op.schema().arguments().size();
  const Arguments arguments(stack->data() + stack->size() - count, count);
  if (!is_for_table(*row, arguments)) return false;
  const auto sizes = row->sizes(arguments);
  const auto example = sizes ? ask(op, arguments) : std::nullopt;
  if (!example || example->size() != sizes->size()) return false;
  std::vector<const ir::Type*> types;
  CallPayload payload{op, {arguments.begin(), arguments.end()}, {}, {}, {}};
  for (size_t r = 0; r < sizes->size(); ++r) {
    if (!(*example)[r].isTensor()) return false;
    const at::Tensor& real = (*example)[r].toTensor();
    const auto strides = strides_like(real, (*sizes)[r]);
    if (!strides || real.storage_offset() != 0) return false;
    types.push_back(recorder.type(real.scalar_type(), real.device(), (*sizes)[r], *strides));
    payload.results.push_back({static_cast<int32_t>(r), -1});
  }
  const bool on_cpu = is_of_cpu(arguments);
  std::vector<ir::Value*> operands;
  const auto operand = [&](const at::Tensor& tensor) {
    operands.push_back(recorder.value_of(tensor));
    return static_cast<uint32_t>(operands.size() - 1);
  };
  for (uint32_t i = 0; i < count; ++i) {
    if (takes_number(arguments[i], on_cpu)) {
      put_number(payload, i, arguments[i], on_cpu, operand);
      continue;
    }
    const size_t before = operands.size();
    for_each_tensor(arguments.subspan(i, 1), [&](const at::Tensor& tensor, uint32_t, int32_t element) {
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor)) return;
      payload.slots.push_back({i, element, operand(tensor)});
    });
    if (operands.size() > before)
      payload.stack[i] = map_tensors(payload.stack[i], [](const at::Tensor&) { return at::Tensor(); });
  }
  update_source(recorder.graph());
  ir::Node* node = recorder.create_call(payload, operands, types, false);
  torch::jit::drop(*stack, count);
  for (size_t r = 0; r < types.size(); ++r) {
    const at::Tensor& real = (*example)[r].toTensor();
    const at::Tensor made = recorder.wrap_fresh(node->result(r), real.scalar_type(), real.device());
    // Composites write to what they give: a recurrent layer turns its output around in place.
    if (!made.is_inference() && !real.is_inference())
      made.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(real._version()));
    stack->push_back(made);
  }
  return true;
}

}  // namespace braze::capture
