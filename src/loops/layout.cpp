#include "loops/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "loops/window.h"
#include "support/error.h"
#include "support/lexer.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;
using Dims = std::vector<int64_t>;

namespace {

using Demand = LayoutDemand;

constexpr std::string_view strength_words[] = {"any", "prefer", "require"};
constexpr std::string_view form_words[] = {"traced", "rows", "matrix"};

// What a layout is worth, in bytes of traffic a byte of the value. A wrong required one costs a copy (read and
// write) and a pass through the cache; a wrong preferred one makes the library rearrange as it reads; results of
// the program that are laid out wrongly are copied, too; kernels that read in another order go through tiles.
constexpr int64_t require_worth = 3, prefer_worth = 2, output_worth = 2, kernel_worth = 1;

/// Dimensions from the outermost in memory to the innermost; equal strides keep their order.
Dims order_of(std::span<const Size> strides, const SizeRules& rules) {
  Dims order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](int64_t dim) { return rules.hint(strides[dim]); });
  return order;
}

Sizes strides_in(const Dims& order, std::span<const Size> sizes) {
  Sizes strides(sizes.size());
  Size stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    if (sizes[order[k]] != 0) stride = stride * sizes[order[k]];
  }
  return strides;
}

/// Strides of dimensions of size 1, and of empty values, move nothing.
bool same_places(std::span<const Size> sizes, std::span<const Size> a, std::span<const Size> b,
                 const SizeRules& rules) {
  if (is_empty(sizes)) return true;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != 1 && !rules.equal(a[k], b[k])) return false;
  return true;
}

/// No two elements share a place: going outwards, each stride steps over all that lies inside. True also where that
/// is not known.
bool overlaps(std::span<const Size> sizes, std::span<const Size> strides, const SizeRules& rules) {
  Size inside = 0;
  const Dims order = order_of(strides, rules);
  for (size_t k = order.size(); k-- > 0;) {
    const Size size = sizes[order[k]], stride = strides[order[k]];
    if (size == 1) continue;
    if (!rules.less(inside, stride)) return true;
    inside = inside + stride * (size - 1);
  }
  return false;
}

bool has_unit_stride(std::span<const Size> sizes, std::span<const Size> strides, size_t dim,
                     const SizeRules& rules) {
  return strides[dim] == 1 || rules.at_most(sizes[dim], 1);
}

class DemandParser {
 public:
  explicit DemandParser(std::string_view text) : lexer_(text, "layouts") {}
  CallLayouts parse() {
    CallLayouts layouts;
    if (lexer_.at_end()) return layouts;
    do layouts.operands.push_back(parse_one());
    while (lexer_.take(","));
    if (lexer_.take("-")) {
      const Token word = lexer_.peek();
      lexer_.expect(">");
      lexer_.expect("(");
      layouts.result = parse_order(word);
    }
    if (!lexer_.at_end()) lexer_.fail("expected ',', '->' or the end");
    return layouts;
  }

 private:
  Demand parse_one() {
    Demand demand;
    const Token word = lexer_.expect(Token::Kind::word, "any, prefer or require");
    const auto strength = std::ranges::find(strength_words, word.text);
    if (strength == std::end(strength_words)) lexer_.fail(word, "expected any, prefer or require");
    demand.strength = static_cast<Demand::Strength>(strength - strength_words);
    if (demand.strength == Demand::Strength::any) return demand;
    if (lexer_.take("(")) {
      demand.form = Demand::Form::order;
      demand.order = parse_order(word);
      return demand;
    }
    const Token form = lexer_.expect(Token::Kind::word, "traced, rows, matrix or an order such as (0,2,3,1)");
    const auto found = std::ranges::find(form_words, form.text);
    if (found == std::end(form_words)) lexer_.fail(form, "expected traced, rows, matrix or an order");
    demand.form = static_cast<Demand::Form>(found - form_words);
    return demand;
  }

  /// What follows "("; `where` is blamed.
  Dims parse_order(const Token& where) {
    Dims order;
    do order.push_back(lexer_.expect_integer());
    while (lexer_.take(","));
    lexer_.expect(")");
    Dims sorted = order;
    std::ranges::sort(sorted);
    for (size_t k = 0; k < sorted.size(); ++k)
      if (sorted[k] != static_cast<int64_t>(k)) lexer_.fail(where, "an order names every dimension once");
    return order;
  }

  Lexer lexer_;
};

}  // namespace

// ---- demands

bool LayoutDemand::holds(const Type& traced, std::span<const Size> sizes, std::span<const Size> strides,
                         const SizeRules& rules) const {
  if (strength == Strength::any || is_empty(sizes)) return true;
  const size_t rank = sizes.size();
  switch (form) {
    case Form::traced: return same_places(sizes, traced.strides.symbolic(), strides, rules);
    case Form::rows: return rank == 0 || has_unit_stride(sizes, strides, rank - 1, rules);
    case Form::matrix: {
      if (rank < 2) return true;
      const size_t row = rank - 2, column = rank - 1;
      const auto steps_over = [&](size_t outer, size_t inner) {
        return sizes[outer] == 1 || rules.at_least(strides[outer], sizes[inner]);
      };
      return (has_unit_stride(sizes, strides, column, rules) && steps_over(row, column)) ||
             (has_unit_stride(sizes, strides, row, rules) && steps_over(column, row));
    }
    case Form::order: return order.size() != rank || same_places(sizes, strides_in(order, sizes), strides, rules);
  }
  return true;
}

Sizes LayoutDemand::strides(const Type& traced, const SizeRules& rules) const {
  const auto sizes = traced.sizes.symbolic();
  if (form == Form::order && order.size() == sizes.size()) return strides_in(order, sizes);
  if (overlaps(sizes, traced.strides.symbolic(), rules)) return ir::contiguous_strides(sizes);
  const Sizes own = list_of(traced.strides);
  if (holds(traced, sizes, own, rules)) return own;
  Dims wanted = order_of(own, rules);
  const auto last = static_cast<int64_t>(own.size()) - 1;
  wanted.erase(std::ranges::find(wanted, last));
  wanted.push_back(last);
  return strides_in(wanted, sizes);
}

CallLayouts parse_layouts(std::string_view text) {
  return DemandParser(text).parse();
}

std::string print(const CallLayouts& layouts) {
  auto order_text = [](const Dims& order) {
    std::string text;
    for (size_t k = 0; k < order.size(); ++k) text += concat(k ? "," : "(", order[k]);
    return text + ")";
  };
  std::string text;
  for (const Demand& demand : layouts.operands) {
    if (!text.empty()) text += ", ";
    text += strength_words[static_cast<size_t>(demand.strength)];
    if (demand.strength == Demand::Strength::any) continue;
    text += " ";
    if (demand.form == Demand::Form::order)
      text += order_text(demand.order);
    else
      text += form_words[static_cast<size_t>(demand.form)];
  }
  if (!layouts.result.empty()) text += " -> " + order_text(layouts.result);
  return text;
}

CallLayouts layouts_of(const Node& call) {
  CallLayouts layouts;
  if (const ir::Attr* attribute = call.find("layouts"))
    layouts = parse_layouts(std::get<std::string_view>(attribute->value));
  layouts.operands.resize(call.operands.size());
  if (call.find("layouts")) return layouts;
  if (ir::has(call.op, ir::traits::product))
    for (Demand& matrix : std::span(layouts.operands).last(2))
      matrix = {Demand::Strength::prefer, Demand::Form::matrix, {}};
  // PyTorch's flash attention takes nothing else and would be left for the plain products.
  if (ir::has(call.op, ir::traits::wants_rows))
    std::ranges::fill(std::span(layouts.operands).first(3),
                      Demand{Demand::Strength::require, Demand::Form::rows, {}});
  // It may look at strides, so they are eager's.
  if (call.op == Op::call)
    std::ranges::fill(layouts.operands, Demand{Demand::Strength::require, Demand::Form::traced, {}});
  return layouts;
}

bool is_dense(std::span<const Size> sizes, std::span<const Size> strides, const SizeRules& rules) {
  return is_empty(sizes) || same_places(sizes, strides, strides_in(order_of(strides, rules), sizes), rules);
}

bool writes_into(Op op) {
  return ir::has(op, ir::traits::product);
}

// ---- assignment

Layouts::Layouts(const ir::Graph& graph, const LayoutOverrides& overrides, const SizeRules& rules)
    : strides_(graph.value_limit()) {
  enum Origin : size_t { computed, allocated, given };
  const auto origin_of = [](const Node* node) {
    if (node->op == Op::input) return given;
    return ir::info(node->op).kind == OpKind::Library && !writes_into(node->op) ? allocated : computed;
  };
  const auto stored = [&](const Type& type, Origin origin) {
    const auto sizes = type.sizes.symbolic(), strides = type.strides.symbolic();
    const bool keeps = origin == given || (origin == allocated && !overlaps(sizes, strides, rules));
    return keeps || is_dense(sizes, strides, rules) ? Sizes(strides.begin(), strides.end())
                                                    : ir::contiguous_strides(sizes);
  };
  // Expressions are worth being looked at once a type.
  std::unordered_map<const Type*, Sizes> known[given + 1];
  auto own = [&](const Value& value) {
    if (!value.type) return;
    const Origin origin = origin_of(value.def);
    if (value.type->sizes.is_constant()) {
      strides_[value.id] = stored(*value.type, origin);
      return;
    }
    const auto [at, is_new] = known[origin].try_emplace(value.type);
    if (is_new) at->second = stored(*value.type, origin);
    strides_[value.id] = at->second;
  };
  for (const ir::Input& input : graph.inputs()) own(*input.value);
  ir::for_each_node(graph, [&](const Node* node) {
    for (const Value& result : node->results) own(result);
    if (ir::info(node->op).kind != OpKind::Library) return;
    const auto override = overrides.find(node);
    CallLayouts& layouts = calls_[node];
    layouts = override == overrides.end() ? layouts_of(*node) : parse_layouts(override->second);
    layouts.operands.resize(node->operands.size());
    if (node->results.empty()) return;  // a call for its effect or its check alone
    const Value& result = node->results[0];
    if (!result.type || layouts.result.size() != result.type->sizes.size()) return;
    const auto sizes = result.type->sizes.symbolic();
    Sizes strides = strides_in(layouts.result, sizes);
    lays_out_results_ |= !same_places(sizes, strides, strides_[result.id], rules) ||
                         !same_places(sizes, strides, ir::contiguous_strides(sizes), rules);
    strides_[result.id] = std::move(strides);
  });
}

namespace {

class Assignment {
 public:
  Assignment(const ir::Graph& graph, const LayoutOverrides& overrides, std::span<Value* const> pliable)
      : graph_(graph),
        pliable_(pliable),
        rules_(graph.prove()),
        layouts_(graph, overrides),
        windows_(graph, layouts_),
        carries_(layouts_.lays_out_results()),
        shown_(carries_ ? graph.value_limit() : 0),
        votes_(graph.value_limit(), Votes(Before{rules_})),
        free_(graph.value_limit()) {}

  Layouts run() {
    find_free();
    ir::for_each_node(graph_, [&](const Node* node) {
      if (ir::info(node->op).kind != OpKind::Library) return;
      const std::vector<Demand>& demands = layouts_.demands(*node);
      for (size_t k = 0; k < demands.size(); ++k) vote(node->operands[k], demands[k]);
    });
    for (const Value* output : graph_.outputs())
      if (std::ranges::find(pliable_, output) == pliable_.end()) vote_for_own(output, output_worth);
    for (const ir::Input& input : graph_.inputs()) show(input.value);
    ir::for_each_node(graph_, [&](const Node* node) {
      for (const Value& result : node->results) {
        decide(&result);
        show(&result);
      }
    });
    return std::move(layouts_);
  }

 private:
  /// Values whose strides are ours to choose. A view other than a permutation may turn into a copy when the strides
  /// below it change, so what has one keeps its own. While an order is carried on, only views that need eager's
  /// strides count: windows of a pooling must not hold their input in another order.
  void find_free() {
    ir::for_each_node(graph_, [&](const Node* node) {
      const OpKind kind = ir::info(node->op).kind;
      const bool stored = kind != OpKind::Source && (kind != OpKind::Library || writes_into(node->op)) &&
                          (kind != OpKind::Concat || carries_) && kind != OpKind::Scan;
      for (const Value& result : node->results)
        free_[result.id] = result.type && stored && windows_.is_base(&result) && numel(&result) > 1;
      if (kind != OpKind::View || node->op == Op::permute) return;
      if (carries_ && node->op != Op::flip && (node->op != Op::reshape || splits(*node))) return;
      free_[windows_.base(node->operands[0])->id] = false;
    });
  }

  /// A reshape that keeps every dimension or makes several of it: possible whatever the strides.
  static bool splits(const Node& reshape) {
    const auto from = reshape.operands[0]->type->sizes.symbolic(), to = reshape.results[0].type->sizes.symbolic();
    size_t at = 0;
    for (const Size size : from) {
      Size product = 1;
      while (product != size && at < to.size()) product = product * to[at++];
      if (product != size) return false;
    }
    return true;
  }

  bool only_permuted(const Value* value) const {
    for (; !windows_.is_base(value); value = value->def->operands[0])
      if (value->def->op != Op::permute) return false;
    return true;
  }

  /// Dimension of the base that each dimension of `value` is; nothing but permutations lies between.
  Dims base_dims(const Value* value) const {
    Dims dims(value->type->sizes.size());
    std::iota(dims.begin(), dims.end(), 0);
    for (; !windows_.is_base(value); value = value->def->operands[0]) {
      const auto step = value->def->ints_attr("dims");
      for (int64_t& dim : dims) dim = step[dim];
    }
    return dims;
  }

  void add_vote(const Value* value, std::span<const Size> strides, int64_t worth) {
    const Value* base = windows_.base(value);
    if (!only_permuted(value)) {
      votes_[base->id][layouts_.of(base)] += worth;
      return;
    }
    const Dims dims = base_dims(value);
    Sizes on_base(dims.size());
    for (size_t k = 0; k < dims.size(); ++k) on_base[dims[k]] = strides[k];
    if (!is_dense(base->type->sizes.symbolic(), on_base, rules_)) return;
    votes_[base->id][on_base] += worth;
  }

  void vote(const Value* operand, const Demand& demand) {
    if (demand.strength == Demand::Strength::any || !free_[windows_.base(operand)->id]) return;
    const Window& window = windows_.of(operand);
    // What the present layout serves already is a vote for it: another one may not.
    const bool holds = demand.holds(*operand->type, window.sizes, window.strides, rules_);
    add_vote(operand, holds ? window.strides : demand.strides(*operand->type, rules_),
             demand.strength == Demand::Strength::require ? require_worth : prefer_worth);
  }

  void vote_for_own(const Value* value, int64_t worth) {
    if (free_[windows_.base(value)->id]) add_vote(value, value->type->strides.symbolic(), worth);
  }

  /// `value` as a window onto memory whose strides are decided.
  void show(const Value* value) {
    if (!carries_ || !value->type) return;
    const Node* node = value->def;
    if (!windows_.is_base(value))
      if (auto window = apply_view(node, shown_[node->operands[0]->id], rules_)) {
        shown_[value->id] = std::move(*window);
        return;
      }
    shown_[value->id] = {value, list_of(value->type->sizes), layouts_.of(value), 0};
  }

  /// Which dimension of `operand` each of the node's result is; empty if they do not correspond.
  static Dims dims_from(const Node& node, const Value* operand) {
    const size_t rank = node.results[0].type->sizes.size(), operand_rank = operand->type->sizes.size();
    Dims dims(operand_rank);
    std::iota(dims.begin(), dims.end(), 0);
    if (operand_rank == rank) return dims;
    if (ir::info(node.op).kind != OpKind::Reduction) return {};
    for (const int64_t reduced : node.ints_attr("dims")) std::erase(dims, reduced);
    return dims.size() == rank ? dims : Dims{};
  }

  /// The strides of a cat that walk through memory as most of what it joins does: each operand may be small.
  Sizes joined(const Value* cat) const {
    Votes elements(Before{rules_});  // that would only be copied straight on
    const auto sizes = cat->type->sizes.symbolic();
    for (const Value* operand : cat->def->operands) {
      const Sizes& strides = shown_[operand->id].strides;
      if (numel(operand) > 0 && strides.size() == sizes.size())
        elements[strides_in(order_of(strides, rules_), sizes)] += numel(operand);
    }
    const Sizes& own = layouts_.of(cat);
    if (elements.empty()) return own;
    return std::ranges::max_element(elements, {},
                                    [&](const auto& order) { return std::pair(order.second, order.first == own); })
        ->first;
  }

  /// The strides of `value` that walk through memory as its largest operand does. Its own where none is as large as
  /// to matter.
  Sizes carried(const Value* value) const {
    const Node* node = value->def;
    if (ir::info(node->op).kind == OpKind::Concat) return joined(value);
    const Sizes& own = layouts_.of(value);
    const Value* largest = nullptr;
    for (const Value* operand : node->operands) {
      const int64_t elements = numel(windows_.base(operand));
      if (2 * elements < numel(value) || operand->type->sizes.size() < own.size()) continue;
      if (!largest || elements > numel(windows_.base(largest))) largest = operand;
    }
    if (!largest) return own;
    const Dims dims = dims_from(*node, largest);
    if (dims.empty()) return own;
    const Sizes& shown = shown_[largest->id].strides;
    const auto sizes = value->type->sizes.symbolic();
    Sizes strides;
    for (const int64_t dim : dims) strides.push_back(shown[dim]);
    // An expanded dimension lies nowhere.
    for (size_t k = 0; k < strides.size(); ++k)
      if (sizes[k] != 1 && strides[k] == 0) return own;
    return strides_in(order_of(strides, rules_), sizes);
  }

  void decide(const Value* value) {
    if (!free_[value->id]) return;
    auto& votes = votes_[value->id];
    const Sizes own = layouts_.of(value);
    if (carries_)
      votes[carried(value)] += kernel_worth;
    else if (votes.empty())
      return;
    else
      votes[own] += kernel_worth;
    const auto best = std::ranges::max_element(
        votes, {}, [&](const auto& vote) { return std::pair(vote.second, vote.first == own); });
    if (best->first != own) layouts_.set(value, best->first);
  }

  /// An order of strides: by the numbers of the examples, and of expressions with the same one by their names.
  struct Before {
    SizeRules rules;
    bool operator()(const Sizes& a, const Sizes& b) const {
      return std::ranges::lexicographical_compare(a, b, [&](Size x, Size y) {
        const int64_t left = rules.hint(x), right = rules.hint(y);
        return left != right ? left < right : x != y && to_text(x) < to_text(y);
      });
    }
  };
  using Votes = std::map<Sizes, int64_t, Before>;

  int64_t numel(const Value* value) const { return rules_.hint(value->type->symbolic_numel()); }

  const ir::Graph& graph_;
  const std::span<Value* const> pliable_;
  const SizeRules rules_;
  Layouts layouts_;
  Windows windows_;
  const bool carries_;         ///< Some call's result has another order, which kernels carry on.
  std::vector<Window> shown_;  ///< By Value::id, if carries_: as the layouts decided so far make it.
  std::vector<Votes> votes_;   ///< Of each base value: what each layout of it is worth.
  std::vector<char> free_;
};

}  // namespace

Layouts assign_layouts(const ir::Graph& graph, const LayoutOverrides& overrides, std::span<Value* const> pliable) {
  return Assignment(graph, overrides, pliable).run();
}

}  // namespace braze::loops
