#include "loops/placement.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include "loops/fusion.h"
#include "loops/window.h"

namespace braze::loops {

namespace {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

/// Bytes that lie without a gap.
int64_t run_bytes(const ir::Type& type, const Sizes& strides, const SizeRules& rules) {
  const auto sizes = type.sizes.symbolic();
  std::vector<size_t> dims;
  for (size_t k = 0; k < strides.size(); ++k)
    if (sizes[k] != 1) dims.push_back(k);
  std::ranges::sort(dims, {}, [&](size_t k) { return rules.hint(strides[k]); });
  Size run = 1;
  for (const size_t k : dims) {
    if (!rules.equal(strides[k], run)) break;
    run = run * sizes[k];
  }
  return rules.hint(run) * ir::byte_size(type.dtype);
}

class Placing {
 public:
  Placing(const ir::Graph& graph, Layouts& layouts, const Targets& targets, std::vector<const Node*> cats)
      : layouts_(layouts),
        cats_(std::move(cats)),
        windows_(graph, layouts),
        facts_(graph, windows_, targets),
        places_(graph.value_limit()) {}

  std::vector<Place> run() {
    // Outer cats first: what lies in an inner one lies in the outer one's strides.
    for (const Node* cat : cats_ | std::views::reverse) place_operands(cat);
    return std::move(places_);
  }

 private:
  void place_operands(const Node* cat) {
    const Value* whole = &cat->results[0];
    const Sizes strides = layouts_.of(whole);
    const auto dim = static_cast<size_t>(cat->int_attr("dim"));
    Size offset = 0;
    for (const Value* operand : cat->operands) {
      const Value* base = windows_.base(operand);
      if (may_be_placed(base, operand, cat)) {
        if (auto own = strides_of_base(operand, base, strides); own && suits(base, *own)) {
          layouts_.set(base, std::move(*own));
          places_[base->id] = {whole, offset};
        }
      }
      offset = offset + operand->type->sizes.symbolic()[dim] * strides[dim];
    }
  }

  bool may_be_placed(const Value* base, const Value* operand, const Node* cat) const {
    const Node* node = base->def;
    const OpKind kind = ir::info(node->op).kind;
    if (node->op == Op::input || kind == OpKind::Source || kind == OpKind::Update) return false;
    if (kind == OpKind::Library && !writes_into(node->op)) return false;
    const auto& consumers = facts_.consumers(base);
    if (consumers.size() != 1 || consumers[0] != cat || facts_.escapes(base)) return false;
    const Size numel = base->type->symbolic_numel();
    return numel != 0 && windows_.rules().equal(numel, operand->type->symbolic_numel()) &&
           std::ranges::count(cat->operands, base, [&](const Value* v) { return windows_.base(v); }) == 1;
  }

  /// Strides of `base` that give `operand`, which shows all of it, these ones.
  std::optional<Sizes> strides_of_base(const Value* operand, const Value* base, Sizes strides) const {
    for (const Value* value = operand; value != base; value = value->def->operands[0]) {
      auto below = undo_view(value->def, strides, windows_.rules());
      if (!below) return std::nullopt;
      strides = std::move(*below);
    }
    return strides;
  }

  bool suits(const Value* base, const Sizes& strides) const {
    if (writes_into(base->def->op)) return strides == ir::contiguous_strides(base->type->sizes.symbolic());
    // Shorter runs share cache lines with their neighbours, which other kernels write.
    return run_bytes(*base->type, strides, windows_.rules()) >= facts_.target(base->def).cache_line;
  }

  Layouts& layouts_;
  std::vector<const Node*> cats_;
  Windows windows_;
  Facts facts_;
  std::vector<Place> places_;
};

}  // namespace

std::vector<Place> place_in_cats(const ir::Graph& graph, Layouts& layouts, const Targets& targets) {
  std::vector<const Node*> cats;
  ir::for_each_node(graph, [&](const Node* node) {
    if (node->op == Op::cat && !is_empty(node->results[0].type->sizes.symbolic())) cats.push_back(node);
  });
  if (cats.empty()) return {};
  return Placing(graph, layouts, targets, std::move(cats)).run();
}

}  // namespace braze::loops
