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

/// Who asks for what, where the node itself does not say. `call` stands for all operators without a row: any may
/// look at strides, so they are eager's.
struct Row {
  Op op;
  std::string_view layouts;
};
constexpr Row table[] = {
    {Op::mm, "prefer matrix, prefer matrix"},
    {Op::addmm, "any, prefer matrix, prefer matrix"},
    {Op::bmm, "prefer matrix, prefer matrix"},
    {Op::baddbmm, "any, prefer matrix, prefer matrix"},
    // PyTorch's flash attention takes nothing else and would be left for the plain products.
    {Op::sdpa, "require rows, require rows, require rows"},
};

// What a layout is worth, in bytes of traffic a byte of the value. A wrong required one costs a copy (read and
// write) and a pass through the cache; a wrong preferred one makes the library rearrange as it reads; results of
// the program that are laid out wrongly are copied, too; kernels that read in another order go through tiles.
constexpr int64_t require_worth = 3, prefer_worth = 2, output_worth = 2, kernel_worth = 1;

/// Dimensions from the outermost in memory to the innermost; equal strides keep their order.
Dims order_of(std::span<const int64_t> strides) {
  Dims order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](int64_t dim) { return strides[dim]; });
  return order;
}

Dims strides_in(const Dims& order, std::span<const int64_t> sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    stride *= std::max<int64_t>(sizes[order[k]], 1);
  }
  return strides;
}

/// Strides of dimensions of size 1, and of empty values, move nothing.
bool same_places(std::span<const int64_t> sizes, std::span<const int64_t> a, std::span<const int64_t> b) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != 1 && a[k] != b[k]) return false;
  return true;
}

/// No two elements share a place: going outwards, each stride steps over all that lies inside.
bool overlaps(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t inside = 0;
  const Dims order = order_of(strides);
  for (size_t k = order.size(); k-- > 0;) {
    const int64_t size = sizes[order[k]], stride = strides[order[k]];
    if (size == 1) continue;
    if (stride <= inside) return true;
    inside += stride * (size - 1);
  }
  return false;
}

bool has_unit_stride(std::span<const int64_t> sizes, std::span<const int64_t> strides, size_t dim) {
  return sizes[dim] <= 1 || strides[dim] == 1;
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

bool LayoutDemand::holds(const Type& traced, std::span<const int64_t> sizes,
                         std::span<const int64_t> strides) const {
  if (strength == Strength::any || std::ranges::find(sizes, 0) != sizes.end()) return true;
  const size_t rank = sizes.size();
  switch (form) {
    case Form::traced: return same_places(sizes, traced.strides, strides);
    case Form::rows: return rank == 0 || has_unit_stride(sizes, strides, rank - 1);
    case Form::matrix: {
      if (rank < 2) return true;
      const size_t row = rank - 2, column = rank - 1;
      const bool row_major =
          has_unit_stride(sizes, strides, column) && (sizes[row] == 1 || strides[row] >= sizes[column]);
      const bool column_major =
          has_unit_stride(sizes, strides, row) && (sizes[column] == 1 || strides[column] >= sizes[row]);
      return row_major || column_major;
    }
    case Form::order: return order.size() != rank || same_places(sizes, strides_in(order, sizes), strides);
  }
  return true;
}

Dims LayoutDemand::strides(const Type& traced) const {
  if (form == Form::order && order.size() == traced.sizes.size()) return strides_in(order, traced.sizes);
  if (overlaps(traced.sizes, traced.strides)) return ir::contiguous_strides(traced.sizes);
  const Dims own(traced.strides.begin(), traced.strides.end());
  if (holds(traced, traced.sizes, own)) return own;
  Dims wanted = order_of(own);
  const auto last = static_cast<int64_t>(own.size()) - 1;
  wanted.erase(std::ranges::find(wanted, last));
  wanted.push_back(last);
  return strides_in(wanted, traced.sizes);
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
  const auto row = std::ranges::find(table, call.op, &Row::op);
  if (const ir::Attr* attribute = call.find("layouts"))
    layouts = parse_layouts(std::get<std::string_view>(attribute->value));
  else if (row != std::end(table))
    layouts = parse_layouts(row->layouts);
  else if (call.op == Op::call)
    layouts.operands.assign(call.operands.size(), {Demand::Strength::require, Demand::Form::traced, {}});
  layouts.operands.resize(call.operands.size());
  return layouts;
}

bool is_dense(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  return same_places(sizes, strides, strides_in(order_of(strides), sizes));
}

bool writes_into(Op op) {
  return op == Op::mm || op == Op::addmm || op == Op::bmm || op == Op::baddbmm;
}

// ---- assignment

Layouts::Layouts(const ir::Graph& graph, const LayoutOverrides& overrides) : strides_(graph.value_limit()) {
  auto own = [&](const Value& value) {
    if (!value.type) return;
    const Type& type = *value.type;
    const bool given =
        value.def->op == Op::input || (ir::info(value.def->op).kind == OpKind::Library &&
                                       !writes_into(value.def->op) && !overlaps(type.sizes, type.strides));
    strides_[value.id] = given || is_dense(type.sizes, type.strides)
                             ? Dims(type.strides.begin(), type.strides.end())
                             : ir::contiguous_strides(type.sizes);
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
    Dims strides = strides_in(layouts.result, result.type->sizes);
    changes_results_ |= !same_places(result.type->sizes, strides, strides_[result.id]);
    strides_[result.id] = std::move(strides);
  });
}

namespace {

class Assignment {
 public:
  Assignment(const ir::Graph& graph, const LayoutOverrides& overrides)
      : graph_(graph),
        layouts_(graph, overrides),
        windows_(graph, layouts_),
        carries_(layouts_.changes_results()),
        shown_(carries_ ? graph.value_limit() : 0),
        votes_(graph.value_limit()),
        free_(graph.value_limit()) {}

  Layouts run() {
    find_free();
    ir::for_each_node(graph_, [&](const Node* node) {
      if (ir::info(node->op).kind != OpKind::Library) return;
      const std::vector<Demand>& demands = layouts_.demands(*node);
      for (size_t k = 0; k < demands.size(); ++k) vote(node->operands[k], demands[k]);
    });
    for (const Value* output : graph_.outputs()) vote_for_own(output, output_worth);
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
        free_[result.id] = result.type && stored && windows_.is_base(&result) && result.type->numel() > 1;
      if (kind != OpKind::View || node->op == Op::permute) return;
      if (carries_ && node->op != Op::flip && (node->op != Op::reshape || splits(*node))) return;
      free_[windows_.base(node->operands[0])->id] = false;
    });
  }

  /// A reshape that keeps every dimension or makes several of it: possible whatever the strides.
  static bool splits(const Node& reshape) {
    const auto &from = reshape.operands[0]->type->sizes, &to = reshape.results[0].type->sizes;
    size_t at = 0;
    for (const int64_t size : from) {
      int64_t product = 1;
      while (product != size && at < to.size()) product *= to[at++];
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

  void add_vote(const Value* value, std::span<const int64_t> strides, int64_t worth) {
    const Value* base = windows_.base(value);
    if (!only_permuted(value)) {
      votes_[base->id][layouts_.of(base)] += worth;
      return;
    }
    const Dims dims = base_dims(value);
    Dims on_base(dims.size());
    for (size_t k = 0; k < dims.size(); ++k) on_base[dims[k]] = strides[k];
    if (!is_dense(base->type->sizes, on_base)) return;
    votes_[base->id][on_base] += worth;
  }

  void vote(const Value* operand, const Demand& demand) {
    if (demand.strength == Demand::Strength::any || !free_[windows_.base(operand)->id]) return;
    const Window& window = windows_.of(operand);
    // What the present layout serves already is a vote for it: another one may not.
    const bool holds = demand.holds(*operand->type, window.sizes, window.strides);
    add_vote(operand, holds ? window.strides : demand.strides(*operand->type),
             demand.strength == Demand::Strength::require ? require_worth : prefer_worth);
  }

  void vote_for_own(const Value* value, int64_t worth) {
    if (free_[windows_.base(value)->id]) add_vote(value, value->type->strides, worth);
  }

  /// `value` as a window onto memory whose strides are decided.
  void show(const Value* value) {
    if (!carries_ || !value->type) return;
    const Node* node = value->def;
    if (!windows_.is_base(value))
      if (auto window = apply_view(node, shown_[node->operands[0]->id])) {
        shown_[value->id] = std::move(*window);
        return;
      }
    const auto sizes = value->type->sizes;
    shown_[value->id] = {value, {sizes.begin(), sizes.end()}, layouts_.of(value), 0};
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
  Dims joined(const Value* cat) const {
    std::map<Dims, int64_t> elements;  // that would only be copied straight on
    for (const Value* operand : cat->def->operands) {
      const Dims& strides = shown_[operand->id].strides;
      if (operand->type->numel() > 0 && strides.size() == cat->type->sizes.size())
        elements[strides_in(order_of(strides), cat->type->sizes)] += operand->type->numel();
    }
    const Dims& own = layouts_.of(cat);
    if (elements.empty()) return own;
    return std::ranges::max_element(elements, {},
                                    [&](const auto& order) { return std::pair(order.second, order.first == own); })
        ->first;
  }

  /// The strides of `value` that walk through memory as its largest operand does. Its own where none is as large as
  /// to matter.
  Dims carried(const Value* value) const {
    const Node* node = value->def;
    if (ir::info(node->op).kind == OpKind::Concat) return joined(value);
    const Dims& own = layouts_.of(value);
    const Value* largest = nullptr;
    for (const Value* operand : node->operands) {
      const int64_t numel = windows_.base(operand)->type->numel();
      if (2 * numel < value->type->numel() || operand->type->sizes.size() < own.size()) continue;
      if (!largest || numel > windows_.base(largest)->type->numel()) largest = operand;
    }
    if (!largest) return own;
    const Dims dims = dims_from(*node, largest);
    if (dims.empty()) return own;
    const std::vector<int64_t>& shown = shown_[largest->id].strides;
    Dims strides;
    for (const int64_t dim : dims) strides.push_back(shown[dim]);
    // An expanded dimension lies nowhere.
    for (size_t k = 0; k < strides.size(); ++k)
      if (value->type->sizes[k] != 1 && strides[k] == 0) return own;
    return strides_in(order_of(strides), value->type->sizes);
  }

  void decide(const Value* value) {
    if (!free_[value->id]) return;
    auto& votes = votes_[value->id];
    const Dims own = layouts_.of(value);
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

  const ir::Graph& graph_;
  Layouts layouts_;
  Windows windows_;
  const bool carries_;         ///< Some call's result has another order, which kernels carry on.
  std::vector<Window> shown_;  ///< By Value::id, if carries_: as the layouts decided so far make it.
  std::vector<std::map<Dims, int64_t>> votes_;  ///< Of each base value: what each layout of it is worth.
  std::vector<char> free_;
};

}  // namespace

Layouts assign_layouts(const ir::Graph& graph, const LayoutOverrides& overrides) {
  return Assignment(graph, overrides).run();
}

}  // namespace braze::loops
