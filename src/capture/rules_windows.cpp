// Convolution runs as an ATen call; its shapes are told here, because its Meta kernel is a Python function that
// imports half a thousand modules (200 ms).
#include "capture/call.h"

namespace braze::capture {
namespace {

/// One number a spatial dimension; a single one stands for all. Nullopt for another count.
std::optional<Sizes> per_dimension(Sizes values, size_t dimensions) {
  if (values.size() == 1) values.assign(dimensions, values[0]);
  if (values.size() != dimensions) return std::nullopt;
  return values;
}

/// Records a call of the operator itself. `tensors` are the places of its tensor arguments.
bool give_call(Call& call, std::initializer_list<uint32_t> tensors, const ir::Type* type) {
  CallPayload payload{call.entry.op, {call.arguments.begin(), call.arguments.end()}, {}, {}, {{0, -1}}};
  std::vector<ir::Value*> operands;
  for (uint32_t i : tensors) {
    if (!call.has(i)) continue;
    payload.stack[i] = at::Tensor();
    payload.slots.push_back({i, -1, static_cast<uint32_t>(operands.size())});
    operands.push_back(call.recorder.value_of(call.tensor(i)));
  }
  return call.give(call.recorder.create_call(payload, operands, {&type, 1}, false)->result());
}

/// How eager's kernels lay out their result: channels_last if the input or the weight is
/// (mkldnn_conv_use_channels_last, thnn_conv_use_channels_last and cudnn_conv_suggest_memory_format in
/// ATen/native/ConvUtils.h), but for f64 on a GPU.
at::MemoryFormat result_format(const at::Tensor& input, const at::Tensor& weight) {
  if (input.is_cuda() && input.scalar_type() == c10::kDouble) return at::MemoryFormat::Contiguous;
  const auto format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

/// (input [N,C,...], weight [O,C/groups,...], bias, stride, padding, dilation, transposed, output_padding, groups);
/// transposed, the weight is [C,O/groups,...]. Anything unusual, and what eager refuses, is left to the Meta
/// kernel.
bool convolution(Call& call, const RuleRow&) {
  const auto input = call.operand(0), weight = call.operand(1);
  if (!input || !weight || input->dtype != weight->dtype) return false;
  const bool transposed = call.flag(6);
  const size_t rank = input->sizes.size();
  if (rank < 3 || rank > 5 || weight->sizes.size() != rank) return false;
  const int64_t groups = call.integer(8);
  if (groups < 1) return false;
  const Dim seen = transposed ? weight->sizes[0] : weight->sizes[1] * groups;
  const Dim channels = transposed ? weight->sizes[1] * groups : weight->sizes[0];
  if (input->sizes[1] != seen || (transposed ? seen : channels) % groups != 0) return false;
  if (call.has(2)) {
    const auto bias = call.operand(2);
    if (!bias || bias->dtype != input->dtype || bias->sizes != Sizes{channels}) return false;
  }
  const auto stride = per_dimension(call.ints(3), rank - 2), padding = per_dimension(call.ints(4), rank - 2),
             dilation = per_dimension(call.ints(5), rank - 2), added = per_dimension(call.ints(7), rank - 2);
  if (!stride || !padding || !dilation || !added) return false;
  Sizes sizes{input->sizes[0], channels};
  for (size_t k = 0; k + 2 < rank; ++k) {
    const Dim window = (*dilation)[k] * (weight->sizes[k + 2] - 1) + 1;
    if ((*stride)[k] < 1 || (*dilation)[k] < 1 || (*padding)[k] < 0 || weight->sizes[k + 2] < 1) return false;
    if (transposed) {
      const Dim more = (*added)[k];
      if (more < 0 || (more >= (*stride)[k] && more >= (*dilation)[k])) return false;
      sizes.push_back((input->sizes[k + 2] - 1) * (*stride)[k] - 2 * (*padding)[k] + window + more);
      if (sizes.back() < 1) return false;
    } else {
      const Dim room = input->sizes[k + 2] + 2 * (*padding)[k] - window;
      if (room < 0) return false;
      sizes.push_back(room / (*stride)[k] + 1);
    }
  }
  if (is_empty(sizes)) return false;
  // Which kernel there is for other layouts, and whether it keeps them, is for ATen to tell.
  if (rank != 4 && !(is_row_major(input->sizes, input->strides) && is_row_major(weight->sizes, weight->strides)))
    return false;
  const at::MemoryFormat format = result_format(call.tensor(0), call.tensor(1));
  if (transposed && format != at::MemoryFormat::Contiguous) return false;
  const Sizes strides = format_strides(sizes, format);
  return give_call(call, {0, 1, 2}, call.type(input->dtype, sizes, strides));
}

}  // namespace

std::span<const RuleRow> window_rules() {
  static constexpr RuleRow rows[] = {
      {"convolution", convolution},
  };
  return rows;
}

}  // namespace braze::capture
