#include "compile/convolution_layout.h"

#include <algorithm>

#include "ir/shape_env.h"

namespace braze::driver {

namespace {

/// What a convolution asks, and how it then lays out its result: as its input (ATen/native/ConvUtils.h,
/// mkldnn_conv_use_channels_last). The weight comes as it is; ATen copies what is not pointwise.
struct Row {
  std::string_view target;
  size_t rank;
  std::string_view layouts;
  std::string_view without_images = {};  ///< Where the gradient of the images is not wanted.
  bool is_backward() const { return !without_images.empty(); }
  size_t images() const { return is_backward() ? 2 : 1; }  ///< Operands, from the first on.
};
// Below it oneDNN has no blocked layout to gain from, and channels_last leaves lanes empty.
constexpr int64_t least_channels = 16;
// Of a GPU: what a kernel that rearranges a weight costs besides, as elements moved in its time (5 us).
constexpr int64_t elements_of_a_launch = 4 << 20;

constexpr Row rows[] = {
    {"aten::convolution", 4, "require (0,2,3,1) -> (0,2,3,1)"},
    {"aten::convolution", 5, "require (0,2,3,4,1) -> (0,2,3,4,1)"},
    {"aten::convolution_backward", 4, "require (0,2,3,1), require (0,2,3,1) -> (0,2,3,1)",
     "require (0,2,3,1), require (0,2,3,1)"},
    {"aten::convolution_backward", 5, "require (0,2,3,4,1), require (0,2,3,4,1) -> (0,2,3,4,1)",
     "require (0,2,3,4,1), require (0,2,3,4,1)"},
};

/// Null: no convolution, or none of images.
const Row* row_of(const ir::Node& node) {
  if (node.op != ir::Op::call || node.results.empty() || !node.results[0].type || node.operands.empty())
    return nullptr;
  const std::string_view target = node.text_attr("target");
  if (!target.starts_with("aten::convolution")) return nullptr;
  // The text as it stands: reading all arguments of all calls would take a tenth of a small network's compilation.
  if (node.find("arguments") && !node.text_attr("arguments").starts_with("$0")) return nullptr;
  const auto row = std::ranges::find_if(rows, [&](const Row& one) {
    return one.target == target && one.rank == node.operands[0]->type->sizes.size() &&
           node.operands.size() > one.images();
  });
  return row == std::end(rows) ? nullptr : row;
}

/// Its first result is images; of a backward it may be the gradient of the weight.
bool gives_images(const ir::Node& node, const Row& row) {
  const bool is_first = !node.find("results") || node.text_attr("results").starts_with("0");
  return is_first && node.results[0].type->sizes.size() == row.rank;
}

/// The images that it reads and gives.
std::vector<const ir::Type*> images(const ir::Node& node, const Row& row) {
  std::vector<const ir::Type*> types;
  for (size_t k = 0; k < row.images(); ++k) types.push_back(node.operands[k]->type);
  if (gives_images(node, row)) types.push_back(node.results[0].type);
  return types;
}

bool is_eligible(const ir::Type& type, const ir::SizeRules& rules) {
  const bool dtype = type.dtype == ir::DType::f32 || type.dtype == ir::DType::bf16 || type.dtype == ir::DType::f16;
  return dtype && type.device.kind != ir::DeviceKind::meta && rules.hint(type.symbolic_numel()) > 0;
}

bool is_in_order(const ir::Type& type, const Row& row, const ir::SizeRules& rules) {
  const loops::LayoutDemand demand = loops::parse_layouts(row.layouts).operands[0];
  return demand.holds(type, type.sizes.symbolic(), type.strides.symbolic(), rules);
}

bool is_pointwise(const ir::Type& weight) {
  return std::ranges::all_of(weight.sizes.symbolic().subspan(2), [](ir::Size size) { return size == 1; });
}

bool is_on_gpu(const ir::Node& node) {
  return node.results[0].type->device.kind == ir::DeviceKind::cuda;
}

/// Of strided pointwise convolutions with fewer channels than a vector has lanes oneDNN's gradient of the weight
/// writes out of bounds in channels_last (capture/backward_formulas.cpp).
bool writes_out_of_bounds(const ir::Node& backward, const Row& row, const ir::SizeRules& rules) {
  if (!row.is_backward() || is_on_gpu(backward)) return false;
  const ir::Type& weight = *backward.operands[row.images()]->type;
  const auto after = backward.operands[0]->type->sizes.symbolic(),
             before = backward.operands[1]->type->sizes.symbolic();
  const bool is_strided = !std::ranges::equal(after.subspan(2), before.subspan(2));
  return is_pointwise(weight) && is_strided && rules.hint(weight.sizes.symbolic()[1]) < least_channels;
}

/// In several groups: of one channel each cuDNN first makes its kernel, for most of a second; of several it has no
/// good ones for f32.
bool is_slow_on_gpu(const ir::Node& node, const Row& row) {
  std::string_view arguments = node.find("arguments") ? node.text_attr("arguments") : "";
  if (row.is_backward()) arguments = arguments.substr(0, arguments.rfind(", ["));  // which gradients are wanted
  const bool has_groups = !arguments.ends_with(", 1");
  const bool is_deep = node.operands[row.images()]->type->sizes.symbolic()[1] == 1;
  return is_on_gpu(node) && has_groups && (is_deep || node.operands[0]->type->dtype == ir::DType::f32);
}

/// What ATen moves in every call to have the weight of a convolution on a GPU in channels_last: nothing if that is
/// how it lies, as pointwise ones do. (oneDNN rearranges weights in either layout.)
int64_t elements_of_weight(const ir::Node& node, const Row& row, const ir::SizeRules& rules) {
  const ir::Type& weight = *node.operands[row.images()]->type;
  if (!is_on_gpu(node) || is_pointwise(weight) || weight.strides.symbolic()[1] == 1) return 0;
  return elements_of_a_launch + rules.hint(weight.symbolic_numel());
}

}  // namespace

loops::LayoutOverrides channels_last_convolutions(const ir::Graph& graph) {
  loops::LayoutOverrides overrides;
  const ir::SizeRules rules = graph.prove();
  bool changes = false, is_refused = false;
  ir::for_each_node(graph, [&](const ir::Node* node) {
    const Row* row = row_of(*node);
    if (!row) return;
    is_refused |= is_slow_on_gpu(*node, *row) || writes_out_of_bounds(*node, *row, rules);
    const std::vector<const ir::Type*> types = images(*node, *row);
    for (const ir::Type* type : types)
      if (type->sizes.size() != row->rank || !is_eligible(*type, rules)) return;
    overrides[node] = gives_images(*node, *row) ? row->layouts : row->without_images;
    for (const ir::Type* type : types) changes |= !is_in_order(*type, *row, rules);
  });
  // Beside one that stays as it is the others would have to be rearranged for it.
  if (!changes || is_refused) overrides.clear();
  return overrides;
}

bool channels_last_pays(const ir::Graph& graph, const loops::LayoutOverrides& convolutions,
                        std::span<ir::Value* const> pliable) {
  const auto through_views = [](const ir::Value* value) {
    while (ir::info(value->def->op).kind == ir::OpKind::View && !value->def->operands.empty())
      value = value->def->operands[0];
    return value;
  };
  const auto is_pliable = [&](const ir::Value* value) {
    return std::ranges::find(pliable, value) != pliable.end();
  };
  const ir::SizeRules rules = graph.prove();
  const auto numel = [&](const ir::Type& type) { return rules.hint(type.symbolic_numel()); };
  int64_t gain = 0;  // elements that need not be moved
  for (const auto& [node, layouts] : convolutions) {
    const Row& row = *row_of(*node);
    for (const ir::Type* type : images(*node, row))
      gain += rules.hint(type->sizes.symbolic()[1]) >= least_channels ? numel(*type) : -numel(*type);
    for (size_t k = 0; k < row.images(); ++k) {
      const ir::Value* read = through_views(node->operands[k]);
      const ir::Type& type = *node->operands[k]->type;
      if (read->def->op == ir::Op::input && type.is_contiguous() && !is_pliable(read)) gain -= numel(type);
    }
    gain -= elements_of_weight(*node, row, rules);
  }
  // An output is copied, and both copies are there at once.
  for (const ir::Value* output : graph.outputs()) {
    const ir::Type& type = *output->type;
    const auto row = std::ranges::find(rows, type.sizes.size(), &Row::rank);
    if (row == std::end(rows) || is_pliable(output)) continue;
    if (!is_in_order(type, *row, rules)) gain -= 2 * numel(type);
  }
  return gain > 0;
}

}  // namespace braze::driver
