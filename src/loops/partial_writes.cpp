#include "loops/partial_writes.h"

#include <algorithm>
#include <unordered_set>

#include "loops/in_place.h"

namespace braze::loops {

namespace {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

bool is_partial_write(const Node& node) {
  // An update that combines reads what was there; done again, it would be another one.
  if (ir::info(node.op).kind == OpKind::Update) return node.text_attr("combine") == "set";
  return node.op == Op::slice_scatter;
}

/// The first and the last element that a window shows, counted from the first of its base. Its strides are not
/// negative.
struct Extent {
  Size first, last;
  explicit Extent(const Window& window) : first(window.offset), last(window.offset) {
    for (size_t k = 0; k < window.sizes.size(); ++k) last = last + (window.sizes[k] - 1) * window.strides[k];
  }
};

/// What is written into one input.
class Finder {
 public:
  Finder(const Value* input, const Facts& facts) : input_(input), facts_(facts) {
    const ir::Type& type = *input->type;
    whole_ = {input, list_of(type.sizes), list_of(type.strides), 0};
  }

  struct Claim {
    const Value* value;
    Window memory;  ///< In the input's.
    size_t writes;  ///< Those that are in it: later ones are not.
    const Node* part_of = nullptr;
  };

  bool find(const Value* result) { return claim(result, whole_) && nobody_sees_too_much(); }
  const std::vector<Claim>& claims() const { return claims_; }
  /// Somebody else reads what was there before.
  bool replaces_read() const { return replaces_read_; }

 private:
  const Claim* claim_of(const Value* value) const {
    const auto found = std::ranges::find(claims_, value, &Claim::value);
    return found == claims_.end() ? nullptr : &*found;
  }

  /// Where in the input's memory `value` lies, if it is the input, a claimed value, or a view of one.
  std::optional<Window> place_of(const Value* value) const {
    if (value == input_) return whole_;
    if (const Claim* claimed = claim_of(value)) return claimed->memory;
    if (ir::info(value->def->op).kind != OpKind::View) return std::nullopt;
    const auto below = place_of(value->def->operands[0]);
    return below ? apply_view(value->def, *below, facts_.rules()) : std::nullopt;
  }

  bool same(const Window& one, const Window& other) const {
    const SizeRules& rules = facts_.rules();
    if (!rules.equal(one.offset, other.offset) || !rules.equal(one.sizes, other.sizes)) return false;
    for (size_t k = 0; k < one.sizes.size(); ++k)
      if (one.sizes[k] != 1 && !rules.equal(one.strides[k], other.strides[k])) return false;
    return true;
  }

  bool apart(const Window& one, const Window& other) const {
    const Extent a(one), b(other);
    return facts_.rules().less(a.last, b.first) || facts_.rules().less(b.last, a.first);
  }

  bool untouched(const Window& memory, size_t writes) const {
    return std::all_of(writes_.begin() + static_cast<int64_t>(writes), writes_.end(),
                       [&](const Window& written) { return apart(written, memory); });
  }

  /// What `value` has besides what is written lies at `memory` already, and was not written over.
  bool lies_there(const Value* value, const Window& memory) const {
    const auto place = place_of(value);
    if (!place || !same(*place, memory)) return false;
    const Value* root = value;
    while (root != input_ && !claim_of(root)) root = root->def->operands[0];
    return untouched(memory, root == input_ ? 0 : claim_of(root)->writes);
  }

  /// Lets `value` lie at `memory`.
  bool claim(const Value* value, const Window& memory) {
    const Node* node = value->def;
    if (ir::info(node->op).kind == OpKind::View) {
      auto strides = undo_view(node, memory.strides, facts_.rules());
      if (!strides) return false;
      const Value* below = node->operands[0];
      return claim(below, {memory.base, list_of(below->type->sizes), std::move(*strides), memory.offset});
    }
    if (!is_partial_write(*node) || claim_of(value) || is_empty(memory.sizes)) return false;
    const Value* before = node->operands[0];
    if (!lies_there(before, memory) && !claim(before, memory)) return false;
    if (node->op == Op::slice_scatter) {
      Window part = loops::part_of(memory, *node, list_of(node->operands[1]->type->sizes));
      if (claim_part(node->operands[1], part))
        claims_.back().part_of = node;
      else
        writes_.push_back(std::move(part));
    } else {
      writes_.push_back(memory);
    }
    claims_.push_back({value, memory, writes_.size(), nullptr});
    return true;
  }

  bool claim_part(const Value* source, const Window& part) {
    const auto claims = claims_;
    const auto writes = writes_;
    if (claim(source, part)) return true;
    claims_ = claims;
    writes_ = writes;
    return false;
  }

  /// Whether all who read the input, or a claimed value, still find what they are to read.
  bool nobody_sees_too_much() {
    const auto is_next = [&](const Node* reader, const Value* value) {
      if (!claim_of(&reader->results[0])) return false;
      const Claim* claimed = claim_of(value);
      for (size_t k = 0; k < reader->operands.size(); ++k) {
        const Value* base = facts_.windows.base(reader->operands[k]);
        const bool stays = k == 0 || (k == 1 && claimed && claimed->part_of == reader);
        if (base == value && !stays) return false;
      }
      return true;
    };
    const auto all_next = [&](const Value* value) {
      return std::ranges::all_of(facts_.consumers(value), [&](const Node* node) { return is_next(node, value); });
    };
    if (facts_.escapes(input_)) return false;
    for (const Node* reader : facts_.consumers(input_)) {
      if (is_next(reader, input_)) continue;
      if (claim_of(&reader->results[0])) return false;  // reads it as it writes it
      replaces_read_ = true;
    }
    return std::ranges::all_of(claims_, [&](const Claim& claimed) {
      const bool is_last = &claimed == &claims_.back();
      if (!is_last && facts_.escapes(claimed.value)) return false;
      return all_next(claimed.value) || untouched(claimed.memory, claimed.writes);
    });
  }

  const Value* input_;
  const Facts& facts_;
  Window whole_;
  std::vector<Claim> claims_;   ///< In program order.
  std::vector<Window> writes_;  ///< Likewise: what is stored.
  bool replaces_read_ = false;
};

}  // namespace

PartialWrites::PartialWrites(const ir::Graph& graph, Layouts& layouts, const Targets& targets,
                             const std::vector<bool>& writable, const std::vector<bool>& refused) {
  std::vector<const ir::Mutation*> candidates;
  for (const ir::Mutation& mutation : graph.mutations()) {
    const Value* root = mutation.value;
    while (ir::info(root->def->op).kind == OpKind::View) root = root->def->operands[0];
    const bool may_be = mutation.input < writable.size() && writable[mutation.input] &&
                        (mutation.input >= refused.size() || !refused[mutation.input]);
    if (may_be && is_partial_write(*root->def)) candidates.push_back(&mutation);
  }
  if (candidates.empty()) return;
  const Windows windows(graph, layouts);
  const Facts facts(graph, windows, targets);
  std::vector<int> ends(graph.value_limit());  // of how many mutations and results a value is the base
  for (const Value* output : graph.outputs()) ++ends[windows.base(output)->id];
  for (const ir::Mutation& mutation : graph.mutations()) ++ends[windows.base(mutation.value)->id];
  for (const ir::Mutation* mutation : candidates) {
    const Value* input = graph.inputs()[mutation->input].value;
    const ir::Type& type = *input->type;
    if (!is_dense(type.sizes.symbolic(), type.strides.symbolic(), windows.rules())) continue;
    Finder finder(input, facts);
    if (ends[windows.base(mutation->value)->id] != 1 || !finder.find(mutation->value)) continue;
    for (const Finder::Claim& claim : finder.claims()) {
      layouts.set(claim.value, claim.memory.strides);
      places_[claim.value] = {mutation->input,
                              windows.rules().equal(claim.value->type->symbolic_numel(), type.symbolic_numel()),
                              claim.memory.offset, finder.replaces_read(), claim.part_of};
    }
  }
}

const PartialWrites::Place* PartialWrites::find(const Value* base) const {
  const auto found = places_.find(base);
  return found == places_.end() ? nullptr : &found->second;
}

std::vector<uint32_t> PartialWrites::misordered(const ir::Graph& graph, const Windows& windows,
                                                const std::vector<Unit>& units) const {
  std::vector<uint32_t> wrong;
  if (places_.empty()) return wrong;
  std::unordered_map<const Node*, size_t> position;
  ir::for_each_node(graph, [&](const Node* node) { position.emplace(node, position.size()); });
  // From behind: what later units read, and where in the program the first of their nodes stands that can fail.
  constexpr size_t none_fails = ~size_t{0};
  size_t first_failure = none_fails;
  std::unordered_set<const Value*> read;
  const auto pass = [&](const Node* node) {
    const Place* place = find(&node->results[0]);
    if (place) {
      const Value* input = graph.inputs()[place->input].value;
      const bool is_early = place->replaces_read ? first_failure != none_fails || read.contains(input)
                                                 : position.at(node) > first_failure;
      if (is_early) wrong.push_back(place->input);
    }
    if (can_fail(*node)) first_failure = std::min(first_failure, position.at(node));
    for (size_t k = place ? 1 : 0; k < node->operands.size(); ++k) read.insert(windows.base(node->operands[k]));
  };
  for (size_t u = units.size(); u-- > 0;) {
    if (units[u].call) pass(units[u].call);
    if (units[u].group) std::ranges::for_each(units[u].group->nodes, pass);
  }
  return wrong;
}

}  // namespace braze::loops
