#include "capture/linear_calls.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace braze::capture {
namespace {

enum class Kind : uint8_t {
  first,    ///< In its first tensor, where no other one depends.
  product,  ///< In each of its tensors: just one depends.
  sum,      ///< In all of them together: all depend.
  chosen,   ///< Likewise, of those behind the first one, which chooses.
  placed,   ///< Likewise, but for the tensors of places among them.
};

const std::unordered_map<std::string_view, Kind>& kinds() {
  static const std::unordered_map<std::string_view, Kind> all = [] {
    std::unordered_map<std::string_view, Kind> kinds;
    for (const std::string_view name : {"_reshape_alias",
                                        "_reshape_copy",
                                        "_to_copy",
                                        "_unsafe_view",
                                        "alias",
                                        "as_strided",
                                        "chunk",
                                        "clone",
                                        "constant_pad_nd",
                                        "contiguous",
                                        "cumsum",
                                        "diagonal",
                                        "div",
                                        "expand",
                                        "flatten",
                                        "flip",
                                        "gather",
                                        "index",
                                        "index_select",
                                        "masked_fill",
                                        "mean",
                                        "movedim",
                                        "narrow",
                                        "neg",
                                        "permute",
                                        "positive",
                                        "repeat",
                                        "reshape",
                                        "roll",
                                        "select",
                                        "slice",
                                        "split",
                                        "split_with_sizes",
                                        "squeeze",
                                        "sum",
                                        "sum_to_size",
                                        "t",
                                        "to",
                                        "transpose",
                                        "tril",
                                        "triu",
                                        "unbind",
                                        "unflatten",
                                        "unfold",
                                        "unsqueeze",
                                        "view",
                                        "view_as"})
      kinds[name] = Kind::first;
    for (const std::string_view name :
         {"bmm", "dot", "einsum", "ger", "linear", "matmul", "mm", "mul", "multiply", "mv", "outer", "vdot",
          "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
      kinds[name] = Kind::product;
    for (const std::string_view name : {"add", "cat", "concat", "copy", "hstack", "rsub", "stack", "sub", "vstack"})
      kinds[name] = Kind::sum;
    kinds["where"] = Kind::chosen;
    for (const std::string_view name : {"index_add", "scatter", "scatter_add"}) kinds[name] = Kind::placed;
    return kinds;
  }();
  return all;
}

std::string_view name_of(const Tape::Call& call) {
  std::string_view name = call.op.schema().name();
  if (!name.starts_with("aten::")) return {};
  name.remove_prefix(6);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

/// All numbers in the place of tensors are zero, and so is what is filled in.
bool has_only_zeros(const Tape::Call& call, bool is_filling) {
  return std::ranges::all_of(call.stack, [&](const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) return value.toTensor().item().toDouble() == 0;
    return !is_filling || !value.isScalar() || value.toScalar().toDouble() == 0;
  });
}

}  // namespace

bool gives_zeros(const Tape::Call& call) {
  const std::string_view name = name_of(call);
  const auto is_zero = [&](size_t argument) { return call.stack.at(argument).toScalar().toDouble() == 0; };
  if (name == "scalar_tensor") return is_zero(0);
  if (name == "full" || name == "full_like") return is_zero(1);
  return name == "zeros_like" || name == "new_zeros" || name == "zeros" || name == "zero";
}

bool is_linear(const Tape::Call& call, const std::vector<bool>& depends) {
  const auto found = kinds().find(name_of(call));
  if (found == kinds().end()) return false;
  const std::string_view name = found->first;
  const auto count = std::ranges::count(depends, true);
  const auto all = static_cast<ptrdiff_t>(depends.size());
  switch (found->second) {
    case Kind::first:
      if (name == "masked_fill" && !has_only_zeros(call, true)) return false;
      // What lies around: zeros.
      if (name == "constant_pad_nd" && !has_only_zeros(call, true)) return false;
      return count == 1 && depends[0];
    case Kind::product: {
      const bool has_bias = name == "linear" || name.starts_with("conv");
      return count == 1 && !(has_bias && all > 2);
    }
    case Kind::sum: {
      const bool has_number =
          (name == "add" || name == "sub" || name == "rsub") && call.op.operator_name().overload_name == "Scalar";
      return count == all && !has_number && has_only_zeros(call, false);
    }
    case Kind::chosen: return !depends[0] && count == all - 1 && has_only_zeros(call, true);
    case Kind::placed: {
      const std::string_view overload = call.op.operator_name().overload_name;
      return all == 3 && depends[0] && !depends[1] && depends[2] && (overload.empty() || overload == "src");
    }
  }
  return false;
}

}  // namespace braze::capture
