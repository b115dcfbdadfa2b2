#include "loops/window.h"

#include <algorithm>
#include <ranges>

#include "loops/kernel.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Whether dimensions that make up `covered` so far may be a part of `chunk`. Of expressions all are tried until
/// they are the whole.
bool may_take(Size covered, Size chunk) {
  return covered.is_constant() && chunk.is_constant() ? covered.constant() < chunk.constant() : covered != chunk;
}

/// Reshapes without copying, as ATen's computeStride does: walk both shapes from the inside, one chunk of
/// memory-adjacent operand dimensions at a time.
std::optional<Sizes> reshape_strides(const Window& from, std::span<const Size> to, const SizeRules& rules) {
  Sizes strides(to.size(), 1);
  if (is_empty(from.sizes)) return ir::contiguous_strides(to);
  std::vector<std::pair<Size, Size>> dims;  // (size, stride) without ones
  for (size_t k = 0; k < from.sizes.size(); ++k)
    if (from.sizes[k] != 1) dims.push_back({from.sizes[k], from.strides[k]});
  int64_t view = static_cast<int64_t>(to.size()) - 1;
  for (size_t end = dims.size(); end > 0;) {
    // The chunk of dimensions [begin, end) that lie one inside the other.
    size_t begin = end - 1;
    Size chunk = dims[begin].first;
    while (begin > 0 && rules.equal(dims[begin - 1].second, dims[begin].second * dims[begin].first))
      chunk = chunk * dims[--begin].first;
    const Size stride = dims[end - 1].second;
    Size covered = 1;
    while (view >= 0 && (may_take(covered, chunk) || to[view] == 1)) {
      strides[view] = stride * covered;
      covered = covered * to[view];
      --view;
    }
    if (!rules.equal(covered, chunk)) return std::nullopt;
    end = begin;
  }
  while (view >= 0) {
    if (to[view] != 1) return std::nullopt;
    --view;
  }
  return strides;
}

}  // namespace

Window part_of(Window window, const ir::Node& node, Sizes sizes) {
  Size& stride = window.strides[static_cast<size_t>(node.int_attr("dim"))];
  window.offset = window.offset + node.size_attr("start") * stride;
  stride = stride * node.size_attr("step");
  window.sizes = std::move(sizes);
  return window;
}

std::optional<Window> apply_view(const ir::Node* view, const Window& operand, const SizeRules& rules) {
  const ir::Type& type = *view->results[0].type;
  const auto shown = type.sizes.symbolic();
  Window result{operand.base, list_of(type.sizes), {}, operand.offset};
  switch (view->op) {
    case ir::Op::permute:
      for (int64_t dim : view->ints_attr("dims")) result.strides.push_back(operand.strides[dim]);
      return result;
    case ir::Op::reshape: {
      auto strides = reshape_strides(operand, shown, rules);
      if (!strides) return std::nullopt;
      result.strides = std::move(*strides);
      return result;
    }
    case ir::Op::expand: {
      result.strides.assign(shown.size(), 0);
      const size_t lead = shown.size() - operand.sizes.size();
      for (size_t k = 0; k < operand.sizes.size(); ++k) {
        if (rules.equal(operand.sizes[k], shown[lead + k]))
          result.strides[lead + k] = operand.strides[k];
        else if (operand.sizes[k] != 1)
          return std::nullopt;  // expanded only where its size happens to be 1
      }
      return result;
    }
    case ir::Op::slice: return part_of(operand, *view, std::move(result.sizes));
    case ir::Op::flip:
      result.strides = operand.strides;
      for (int64_t dim : view->ints_attr("dims")) {
        const Size size = operand.sizes[dim], last = rules.at_least(size, 1) ? size - 1 : max(size - 1, Size(0));
        result.offset = result.offset + last * operand.strides[dim];
        result.strides[dim] = -operand.strides[dim];
      }
      return result;
    case ir::Op::index_map: {
      const auto origin = view->sizes_attr("origin"), map = view->sizes_attr("map");
      result.strides.assign(shown.size(), 0);
      for (size_t d = 0; d < origin.size(); ++d) {
        if (!is_empty(shown)) result.offset = result.offset + origin[d] * operand.strides[d];
        for (size_t k = 0; k < shown.size(); ++k)
          result.strides[k] = result.strides[k] + map[d * shown.size() + k] * operand.strides[d];
      }
      return result;
    }
    default: break;
  }
  BRAZE_CHECK(false, "not a view: ", ir::info(view->op).name);
  return std::nullopt;
}

std::optional<Sizes> undo_view(const ir::Node* view, const Sizes& strides, const SizeRules& rules) {
  const ir::SizeSpan &shown = view->results[0].type->sizes, &below = view->operands[0]->type->sizes;
  if (view->op == ir::Op::permute) {
    Sizes undone(strides.size());
    const auto dims = view->ints_attr("dims");
    for (size_t k = 0; k < strides.size(); ++k) undone[dims[k]] = strides[k];
    return undone;
  }
  if (view->op != ir::Op::reshape) return std::nullopt;
  auto undone = reshape_strides({&view->results[0], list_of(shown), strides, 0}, below.symbolic(), rules);
  if (!undone) return std::nullopt;
  const Window base{view->operands[0], list_of(below), *undone, 0};
  const auto again = reshape_strides(base, shown.symbolic(), rules);
  if (!again) return std::nullopt;
  for (size_t k = 0; k < strides.size(); ++k)
    if (shown.symbolic()[k] != 1 && !rules.equal((*again)[k], strides[k])) return std::nullopt;
  return undone;
}

namespace {

/// Values that library calls or write-backs see, directly or through views: as tensors, whose strides are not
/// negative.
std::vector<bool> seen_as_tensors(const ir::Graph& graph) {
  std::vector<bool> seen(graph.value_limit(), false);
  for (const ir::Mutation& mutation : graph.mutations()) seen[mutation.value->id] = true;
  std::vector<const ir::Node*> nodes;
  ir::for_each_node(graph, [&](ir::Node* node) { nodes.push_back(node); });
  for (const ir::Node* node : nodes | std::views::reverse) {
    const ir::OpKind kind = ir::info(node->op).kind;
    if (kind == ir::OpKind::Library || (kind == ir::OpKind::View && seen[node->results[0].id]))
      for (const ir::Value* operand : node->operands) seen[operand->id] = true;
  }
  return seen;
}

}  // namespace

Windows::Windows(const ir::Graph& graph, const Layouts& layouts, const SizeRules& rules)
    : rules_(rules), windows_(graph.value_limit()) {
  const std::vector<bool> seen = seen_as_tensors(graph);
  auto own = [&](const ir::Value* value) {
    windows_[value->id] = {value, list_of(value->type->sizes), layouts.of(value), 0};
  };
  for (const ir::Input& input : graph.inputs()) own(input.value);
  ir::for_each_node(graph, [&](ir::Node* node) {
    const bool needs_memory = node->op == ir::Op::flip && seen[node->results[0].id];
    if (ir::info(node->op).kind == ir::OpKind::View && !needs_memory) {
      if (auto window = apply_view(node, windows_[node->operands[0]->id], rules_)) {
        windows_[node->results[0].id] = std::move(*window);
        return;
      }
    }
    for (ir::Value& result : node->results) own(&result);
  });
}

int64_t Windows::alignment(const ir::Value* base) const {
  if (const auto at = alignment_.find(base->id); at != alignment_.end()) return at->second;
  const bool planned = base->def->op != ir::Op::input && ir::info(base->def->op).kind != ir::OpKind::Library;
  return planned ? planned_alignment : ir::byte_size(base->type->dtype);
}

}  // namespace braze::loops
