#include "capture/fused_layers.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "capture/dim.h"
#include "capture/shapes.h"
#include "capture/size_node.h"
#include "capture/types.h"

namespace braze::capture {
namespace {

using Arguments = std::span<const c10::IValue>;
using Results = std::optional<std::vector<at::Tensor>>;

bool has(Arguments arguments, size_t place) {
  return arguments[place].isTensor() && arguments[place].toTensor().defined();
}

/// All are dense tensors of one floating type on the CPU.
bool are_alike(Arguments arguments, std::initializer_list<size_t> places) {
  const at::Tensor& first = arguments[*places.begin()].toTensor();
  if (!first.defined() || !first.is_floating_point()) return false;
  return std::ranges::all_of(places, [&](size_t place) {
    const at::Tensor& tensor = arguments[place].toTensor();
    return tensor.defined() && !tensor.is_nested() && tensor.layout() == at::kStrided && tensor.is_cpu() &&
           tensor.scalar_type() == first.scalar_type();
  });
}

bool has_sizes(Arguments arguments, size_t place, std::initializer_list<Dim> sizes) {
  return dims_of(arguments[place].toTensor()) == Sizes(sizes);
}

/// What both operators say of their attention.
struct Heads {
  int64_t width, count;
  at::Tensor qkv_weight, qkv_bias, weight, bias;  ///< Of the projections in and out.
  at::Tensor mask;  ///< Undefined, or true where nothing is looked at, such that it broadcasts to the scores.
};

/// \param first  place of embed_dim, which num_heads and the four parameters follow.
/// \param mask   place of the mask; its kind is at `kind`. Nullopt for what the kernels refuse, or are not known to
///               accept.
std::optional<Heads> heads_of(Arguments arguments, size_t first, size_t mask, size_t kind) {
  Heads heads{arguments[first].toInt(),
              arguments[first + 1].toInt(),
              arguments[first + 2].toTensor(),
              arguments[first + 3].toTensor(),
              arguments[first + 4].toTensor(),
              arguments[first + 5].toTensor(),
              at::Tensor()};
  const DimsRef sizes = dims_of(arguments[0].toTensor());
  if (!are_alike(arguments, {0, first + 2, first + 3, first + 4, first + 5}) || sizes.size() != 3 ||
      is_empty(sizes))
    return std::nullopt;
  const Dim width = heads.width;
  if (heads.count < 1 || heads.width % heads.count != 0 || sizes[2] != width ||
      !has_sizes(arguments, first + 2, {3 * width, width}) || !has_sizes(arguments, first + 3, {3 * width}) ||
      !has_sizes(arguments, first + 4, {width, width}) || !has_sizes(arguments, first + 5, {width}))
    return std::nullopt;
  if (!has(arguments, mask)) return heads;
  const at::Tensor& given = arguments[mask].toTensor();
  if (!arguments[kind].isInt() || !given.is_cpu() || given.layout() != at::kStrided) return std::nullopt;
  const Dim batch = sizes[0], length = sizes[1];
  // 0: of the scores, 1: of the keys of each row, 2: of each head's scores.
  const int64_t said = arguments[kind].toInt();
  const bool fits = said == 0   ? has_sizes(arguments, mask, {length, length})
                    : said == 1 ? has_sizes(arguments, mask, {batch, length})
                                : said == 2 && has_sizes(arguments, mask, {batch, heads.count, length, length});
  if (!fits) return std::nullopt;
  heads.mask = given.to(at::kBool);
  if (said == 1) heads.mask = heads.mask.unsqueeze(1).unsqueeze(1);
  return heads;
}

struct Attended {
  at::Tensor result, weights;  ///< Weights of each head, undefined unless asked for.
};

Attended attend(const at::Tensor& x, const Heads& heads, bool need_weights) {
  const auto parts = at::linear(x, heads.qkv_weight, heads.qkv_bias).chunk(3, -1);
  const auto by_head = [&](const at::Tensor& part) {
    return part.unflatten(-1, {heads.count, heads.width / heads.count}).transpose(1, 2);
  };
  const at::Tensor q = by_head(parts[0]), k = by_head(parts[1]), v = by_head(parts[2]);
  Attended attended;
  at::Tensor context;
  if (need_weights || heads.mask.defined()) {
    // Where all is masked the rows are NaN, which scaled_dot_product_attention gives zeros for.
    const double scale = std::sqrt(static_cast<double>(heads.width / heads.count));
    at::Tensor scores = at::matmul(q / scale, k.transpose(-2, -1));
    if (heads.mask.defined()) scores = scores.masked_fill(heads.mask, -std::numeric_limits<double>::infinity());
    attended.weights = scores.softmax(-1);
    context = at::matmul(attended.weights, v);
  } else {
    context = at::scaled_dot_product_attention(q, k, v);
  }
  attended.result = at::linear(context.transpose(1, 2).flatten(2), heads.weight, heads.bias);
  return attended;
}

/// As eager, once: masks of these operators are conditions, whatever their numbers are.
void warn_of_mask(Arguments arguments, size_t mask) {
  if (has(arguments, mask) && arguments[mask].toTensor().scalar_type() != at::kBool) {
    TORCH_WARN_ONCE(
        "Converting mask without torch.bool dtype to bool; this will negatively affect performance. "
        "Prefer to use a boolean mask directly.");
  }
}

/// (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights,
/// average_attn_weights, mask_type) -> (result, weights), of self-attention.
Results multi_head_attention(Arguments arguments) {
  if (!arguments[1].toTensor().is_same(arguments[0].toTensor()) ||
      !arguments[2].toTensor().is_same(arguments[0].toTensor()))
    return std::nullopt;
  const auto heads = heads_of(arguments, 3, 9, 12);
  if (!heads) return std::nullopt;
  warn_of_mask(arguments, 9);
  const bool need_weights = arguments[10].toBool();
  auto [result, weights] = attend(arguments[0].toTensor(), *heads, need_weights);
  if (!need_weights) weights = at::Tensor();
  if (need_weights && arguments[11].toBool()) weights = weights.sum(1) / heads->count;
  return std::vector{result, weights};
}

/// (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
/// norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
/// mask, mask_type)
Results encoder_layer(Arguments arguments) {
  if (!are_alike(arguments, {0, 10, 11, 12, 13, 14, 15, 16, 17})) return std::nullopt;
  const DimsRef inner = dims_of(arguments[14].toTensor());
  if (inner.size() != 2) return std::nullopt;
  const Dim width = arguments[1].toInt(), wide = inner[0];
  for (const size_t norm : {10, 11, 12, 13})
    if (!has_sizes(arguments, norm, {width})) return std::nullopt;
  if (inner[1] != width || !has_sizes(arguments, 15, {wide}) || !has_sizes(arguments, 16, {width, wide}) ||
      !has_sizes(arguments, 17, {width}))
    return std::nullopt;
  const auto heads = heads_of(arguments, 1, 18, 19);
  if (!heads) return std::nullopt;
  warn_of_mask(arguments, 18);
  const bool norm_first = arguments[8].toBool();
  const auto norm = [&](const at::Tensor& x, size_t weight) {
    return at::layer_norm(x, {heads->width}, arguments[weight].toTensor(), arguments[weight + 1].toTensor(),
                          arguments[9].toDouble());
  };
  const at::Tensor& src = arguments[0].toTensor();
  at::Tensor x = src + attend(norm_first ? norm(src, 10) : src, *heads, false).result;
  if (!norm_first) x = norm(x, 10);
  at::Tensor hidden = at::linear(norm_first ? norm(x, 12) : x, arguments[14].toTensor(), arguments[15].toTensor());
  hidden = arguments[7].toBool() ? at::gelu(hidden) : at::relu(hidden);
  x = x + at::linear(hidden, arguments[16].toTensor(), arguments[17].toTensor());
  return std::vector{norm_first ? x : norm(x, 12)};
}

struct Row {
  std::string_view name;
  Results (*open)(Arguments arguments);
};
constexpr Row kRows[] = {
    {"aten::_native_multi_head_attention", multi_head_attention},
    {"aten::_transformer_encoder_layer_fwd", encoder_layer},
};

const Row* find(const c10::OperatorName& name) {
  const auto row = std::ranges::find(kRows, name.name, &Row::name);
  return row == std::end(kRows) || !name.overload_name.empty() ? nullptr : row;
}

}  // namespace

bool is_fused_layer(const c10::OperatorName& name) {
  return find(name) != nullptr;
}

bool open_fused_layer(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // The layers have no gradients either.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const size_t count = op.schema().arguments().size();
  const Results results = find(op.operator_name())->open(torch::jit::last(*stack, count));
  if (!results) return false;
  torch::jit::drop(*stack, count);
  for (const at::Tensor& result : *results) stack->emplace_back(result);
  return true;
}

}  // namespace braze::capture
