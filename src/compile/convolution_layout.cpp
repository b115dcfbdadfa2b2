#include "compile/convolution_layout.h"

#include <algorithm>

#include "ir/shape_env.h"

namespace braze::driver {

namespace {

/// What a convolution asks, and how it then lays out its result: as its input (ATen/native/ConvUtils.h,
/// mkldnn_conv_use_channels_last). The weight comes as it is; ATen copies what is not pointwise.
struct Row {
  size_t rank;
  std::string_view layouts;
};
// Below it oneDNN has no blocked layout to gain from, and channels_last leaves lanes empty.
constexpr int64_t least_channels = 16;
// Of a GPU: what a kernel that rearranges a weight costs besides, as elements moved in its time (5 us).
constexpr int64_t elements_of_a_launch = 4 << 20;

constexpr Row rows[] = {
    {4, "require (0,2,3,1) -> (0,2,3,1)"},
    {5, "require (0,2,3,4,1) -> (0,2,3,4,1)"},
};

bool is_convolution(const ir::Node& node) {
  if (node.op != ir::Op::call || node.results.size() != 1 || !node.results[0].type) return false;
  if (node.text_attr("target") != "aten::convolution") return false;
  // The text as it stands: reading all arguments of all calls would take a tenth of a small network's compilation.
  return !node.operands.empty() && (!node.find("arguments") || node.text_attr("arguments").starts_with("$0"));
}

bool is_eligible(const ir::Type& type, const ir::SizeRules& rules) {
  const bool dtype = type.dtype == ir::DType::f32 || type.dtype == ir::DType::bf16 || type.dtype == ir::DType::f16;
  return dtype && type.device.kind != ir::DeviceKind::meta && rules.hint(type.symbolic_numel()) > 0;
}

bool is_on_gpu(const ir::Node& node) {
  return node.results[0].type->device.kind == ir::DeviceKind::cuda;
}

/// In several groups: of one channel each cuDNN first makes its kernel, for most of a second; of several it has no
/// good ones for f32.
bool is_slow_on_gpu(const ir::Node& node) {
  const std::string_view arguments = node.find("arguments") ? node.text_attr("arguments") : "";
  const bool has_groups = !arguments.ends_with(", 1");  // the last argument of the schema
  const bool is_deep = node.operands[1]->type->sizes.symbolic()[1] == 1;
  return is_on_gpu(node) && has_groups && (is_deep || node.operands[0]->type->dtype == ir::DType::f32);
}

/// What ATen moves in every call to have the weight of a convolution on a GPU in channels_last: nothing if that is
/// how it lies, as pointwise ones do. (oneDNN rearranges weights in either layout.)
int64_t elements_of_weight(const ir::Node& node, const ir::SizeRules& rules) {
  const ir::Type& weight = *node.operands[1]->type;
  const auto sizes = weight.sizes.symbolic(), strides = weight.strides.symbolic();
  const bool is_pointwise = std::ranges::all_of(sizes.subspan(2), [](ir::Size size) { return size == 1; });
  if (!is_on_gpu(node) || is_pointwise || strides[1] == 1) return 0;
  return elements_of_a_launch + rules.hint(weight.symbolic_numel());
}

}  // namespace

loops::LayoutOverrides channels_last_convolutions(const ir::Graph& graph) {
  loops::LayoutOverrides overrides;
  const ir::SizeRules rules = graph.prove();
  bool changes = false, is_slow = false;
  ir::for_each_node(graph, [&](const ir::Node* node) {
    if (!is_convolution(*node)) return;
    is_slow |= is_slow_on_gpu(*node);
    const ir::Type &input = *node->operands[0]->type, &result = *node->results[0].type;
    if (!is_eligible(input, rules) || !is_eligible(result, rules)) return;
    for (const Row& row : rows) {
      if (row.rank != result.sizes.size() || row.rank != input.sizes.size()) continue;
      overrides[node] = row.layouts;
      const loops::LayoutDemand demand = loops::parse_layouts(row.layouts).operands[0];
      changes |= !demand.holds(result, result.sizes.symbolic(), result.strides.symbolic(), rules);
    }
  });
  // Beside one that stays as it is the others would have to be rearranged for it.
  if (!changes || is_slow) overrides.clear();
  return overrides;
}

bool channels_last_pays(const ir::Graph& graph, const loops::LayoutOverrides& convolutions) {
  const auto through_views = [](const ir::Value* value) {
    while (ir::info(value->def->op).kind == ir::OpKind::View && !value->def->operands.empty())
      value = value->def->operands[0];
    return value;
  };
  const ir::SizeRules rules = graph.prove();
  const auto numel = [&](const ir::Type& type) { return rules.hint(type.symbolic_numel()); };
  int64_t gain = 0;  // elements that need not be moved
  for (const auto& [node, layouts] : convolutions) {
    const ir::Type &input = *node->operands[0]->type, &result = *node->results[0].type;
    for (const ir::Type* type : {&input, &result})
      gain += rules.hint(type->sizes.symbolic()[1]) >= least_channels ? numel(*type) : -numel(*type);
    if (through_views(node->operands[0])->def->op == ir::Op::input && input.is_contiguous()) gain -= numel(input);
    gain -= elements_of_weight(*node, rules);
  }
  // An output is copied, and both copies are there at once. Above all what a backward reads, in eager's layout: for
  // training, row-major takes 968 MB instead of 1,121 (ResNet-50) and 0.87 of the time (MobileNetV2).
  for (const ir::Value* output : graph.outputs())
    if (output->type->sizes.size() >= 4) gain -= 2 * numel(*output->type);
  return gain > 0;
}

}  // namespace braze::driver
