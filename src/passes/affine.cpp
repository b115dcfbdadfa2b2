#include "passes/affine.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <unordered_map>
#include <utility>

namespace braze::passes {

using namespace ir;

namespace {

/// What masks and positions are made by is shallower.
constexpr int max_depth = 32;
/// Products with an index, which is below 2^46, stay far from where they would overflow.
constexpr int64_t largest_constant = int64_t{1} << 40, largest_factor = int64_t{1} << 14;

using Result = std::optional<Affine>;

bool is_one(Size size) {
  return size == Size(1);
}

Affine constant(int64_t number, size_t rank) {
  return {number, std::vector<int64_t>(rank)};
}

/// Nothing where numbers are large; no factors along dimensions of one element.
Result checked(Result form, std::span<const Size> sizes) {
  if (!form || std::abs(form->constant) > largest_constant) return std::nullopt;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t& factor = form->factors[dim];
    if (is_one(sizes[dim])) factor = 0;
    if (std::abs(factor) > largest_factor) return std::nullopt;
  }
  return form;
}

/// Where dimensions of one element alone come and go.
Result of_reshape(const Affine& form, const Type& from, const Type& to) {
  const auto before = from.sizes.symbolic(), after = to.sizes.symbolic();
  Affine made = constant(form.constant, after.size());
  if (form.is_constant()) return made;
  size_t k = 0;
  for (size_t dim = 0; dim < after.size(); ++dim) {
    if (is_one(after[dim])) continue;
    while (k < before.size() && is_one(before[k])) ++k;
    if (k == before.size() || before[k] != after[dim]) return std::nullopt;
    made.factors[dim] = form.factors[k++];
  }
  while (k < before.size() && is_one(before[k])) ++k;
  return k == before.size() ? Result(made) : std::nullopt;
}

/// The forms of values that lead to each other, each found once.
class Forms {
 public:
  Result of(const Value* value, int depth) {
    const DType dtype = value->type->dtype;
    if (depth == 0 || (dtype != DType::i64 && dtype != DType::b8)) return std::nullopt;
    const auto [at, is_new] = known_.try_emplace(value);
    if (!is_new) return at->second;
    Result form = checked(of_node(*value->def, depth - 1), value->type->sizes.symbolic());
    // A truth value is 0 or 1: no index tells which.
    if (form && dtype == DType::b8 && !form->is_constant()) form.reset();
    return known_[value] = std::move(form);
  }

 private:
  Result operand(const Node& node, size_t k, int depth) { return of(Graph::resolve(node.operands[k]), depth); }

  Result of_node(const Node& node, int depth) {
    switch (node.op) {
      case Op::iota: return Affine{0, {1}};
      case Op::scalar: return constant(node.number_attr("value").as_int(), 0);
      case Op::cast: return of_cast(node, depth);
      case Op::cat: return of_cat(node, depth);
      case Op::index: return of_index(node, depth);
      case Op::cumsum: {
        const Result form = operand(node, 0, depth);
        return form && form->is_constant() && form->constant == 0 ? form : std::nullopt;
      }
      case Op::logical_not: {
        const Result form = operand(node, 0, depth);
        return form && form->is_constant() ? Result(constant(form->constant == 0, form->factors.size()))
                                           : std::nullopt;
      }
      default: break;
    }
    if (info(node.op).kind == OpKind::View) {
      const Type &from = *Graph::resolve(node.operands[0])->type, &to = *node.results[0].type;
      const Result form = from.dtype == to.dtype ? operand(node, 0, depth) : std::nullopt;
      return form ? affine_view(node, *form) : form;
    }
    const OpKind kind = info(node.op).kind;
    return kind == OpKind::Binary || kind == OpKind::Compare ? of_pair(node, depth) : std::nullopt;
  }

  Result of_cast(const Node& node, int depth) {
    Result form = operand(node, 0, depth);
    if (!form || node.results[0].type->dtype != DType::b8) return form;
    return form->is_constant() ? Result(constant(form->constant != 0, form->factors.size())) : std::nullopt;
  }

  Result of_pair(const Node& node, int depth) {
    const Result left = operand(node, 0, depth), right = operand(node, 1, depth);
    if (!left || !right) return std::nullopt;
    const auto rank = static_cast<size_t>(node.results[0].type->rank());
    const Affine a = affine_spread(*left, rank), b = affine_spread(*right, rank);
    const bool are_numbers = node.results[0].type->dtype == DType::i64;
    switch (node.op) {
      case Op::add: return are_numbers ? affine_sum(a, b, 1) : std::nullopt;
      case Op::sub: return are_numbers ? affine_sum(a, b, -1) : std::nullopt;
      case Op::mul:
        if (!a.is_constant() && !b.is_constant()) return std::nullopt;
        return a.is_constant() ? affine_sum(constant(0, rank), b, a.constant)
                               : affine_sum(constant(0, rank), a, b.constant);
      case Op::bitwise_and: return are_numbers ? std::nullopt : Result(constant(a.constant & b.constant, rank));
      case Op::bitwise_or: return are_numbers ? std::nullopt : Result(constant(a.constant | b.constant, rank));
      default: break;
    }
    const Result difference = info(node.op).kind == OpKind::Compare ? affine_sum(a, b, -1) : std::nullopt;
    if (!difference || !difference->is_constant()) return std::nullopt;
    return constant(holds(node.op, difference->constant), rank);
  }

  /// a OP b, of a - b.
  static bool holds(Op op, int64_t difference) {
    switch (op) {
      case Op::eq: return difference == 0;
      case Op::ne: return difference != 0;
      case Op::lt: return difference < 0;
      case Op::le: return difference <= 0;
      case Op::gt: return difference > 0;
      default: return difference >= 0;
    }
  }

  /// Pieces that go on as the one before.
  Result of_cat(const Node& node, int depth) {
    const auto dim = static_cast<size_t>(node.int_attr("dim"));
    struct Piece {
      Affine form;
      std::optional<int64_t> start;
      bool is_single;
    };
    std::vector<Piece> pieces;
    std::optional<int64_t> start = 0;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const Result form = operand(node, k, depth);
      if (!form) return std::nullopt;
      const Size size = Graph::resolve(node.operands[k])->type->sizes.symbolic()[dim];
      pieces.push_back({*form, start, is_one(size)});
      start = start && size.is_constant() ? std::optional(*start + size.constant()) : std::nullopt;
    }
    // What the first long piece grows by, or what two of one element differ by.
    const auto longest = std::ranges::find(pieces, false, &Piece::is_single);
    int64_t factor = 0;
    if (longest != pieces.end()) {
      factor = longest->form.factors[dim];
    } else if (pieces.size() > 1) {
      factor = pieces[1].form.constant - pieces[0].form.constant;
    }
    Affine whole = pieces[0].form;
    whole.factors[dim] = factor;
    for (Piece& piece : pieces) {
      if (factor != 0 && !piece.start) return std::nullopt;
      if (piece.is_single) piece.form.factors[dim] = factor;
      const int64_t constant = piece.form.constant - factor * piece.start.value_or(0);
      if (constant != whole.constant || piece.form.factors != whole.factors) return std::nullopt;
    }
    return whole;
  }

  /// source[:, indices...]: the form at the form of the indices, none of which counts from the end.
  Result of_index(const Node& node, int depth) {
    const Result source = operand(node, 0, depth);
    if (!source) return std::nullopt;
    const auto rank = static_cast<size_t>(node.results[0].type->rank());
    const auto dims = node.ints_attr("dims");
    const auto first = static_cast<size_t>(dims.front());
    const size_t spread = rank - (source->factors.size() - dims.size());  // Of the indices together.
    Affine form = constant(source->constant, rank);
    for (size_t dim = 0; dim < source->factors.size(); ++dim) {
      if (dim >= first && dim < first + dims.size()) continue;
      form.factors[dim < first ? dim : dim + spread - dims.size()] = source->factors[dim];
    }
    for (size_t k = 0; k < dims.size(); ++k) {
      const int64_t factor = source->factors[first + k];
      if (factor == 0) continue;
      const Result index = operand(node, k + 1, depth);
      if (!index || Graph::resolve(node.operands[k + 1])->type->dtype != DType::i64 || index->constant < 0)
        return std::nullopt;
      const Affine wide = affine_spread(*index, spread);
      if (std::ranges::any_of(wide.factors, [](int64_t part) { return part < 0; })) return std::nullopt;
      form.constant += factor * wide.constant;
      for (size_t dim = 0; dim < spread; ++dim) form.factors[first + dim] += factor * wide.factors[dim];
    }
    return form;
  }

  std::unordered_map<const Value*, Result> known_;
};

}  // namespace

bool Affine::is_constant() const {
  return std::ranges::all_of(factors, [](int64_t factor) { return factor == 0; });
}

Result affine(const Value* value) {
  return Forms().of(value, max_depth);
}

Result affine_sum(Affine a, const Affine& b, int64_t times) {
  int64_t added = 0;
  if (__builtin_mul_overflow(times, b.constant, &added) || std::abs(added) > largest_constant) return std::nullopt;
  a.constant += added;
  for (size_t dim = 0; dim < a.factors.size(); ++dim) {
    if (__builtin_mul_overflow(times, b.factors[dim], &added) || std::abs(added) > largest_factor)
      return std::nullopt;
    a.factors[dim] += added;
  }
  return a;
}

Affine affine_spread(const Affine& form, size_t rank) {
  Affine wide = constant(form.constant, rank);
  std::ranges::copy(form.factors, wide.factors.end() - static_cast<std::ptrdiff_t>(form.factors.size()));
  return wide;
}

Result affine_view(const Node& view, const Affine& form) {
  const Type &from = *Graph::resolve(view.operands[0])->type, &to = *view.results[0].type;
  switch (view.op) {
    case Op::reshape: return of_reshape(form, from, to);
    case Op::expand: return affine_spread(form, static_cast<size_t>(to.rank()));
    case Op::permute: {
      Affine made{form.constant, {}};
      for (const int64_t dim : view.ints_attr("dims"))
        made.factors.push_back(form.factors[static_cast<size_t>(dim)]);
      return made;
    }
    case Op::slice: {
      const auto dim = static_cast<size_t>(view.int_attr("dim"));
      const Size start = view.size_attr("start"), step = view.size_attr("step");
      if (form.factors[dim] == 0) return form;
      if (!start.is_constant() || !step.is_constant()) return std::nullopt;
      Affine made = form;
      if (__builtin_mul_overflow(form.factors[dim], start.constant(), &made.constant) ||
          __builtin_mul_overflow(form.factors[dim], step.constant(), &made.factors[dim]))
        return std::nullopt;
      made.constant += form.constant;
      return made;
    }
    default:
      return form.is_constant() ? Result(constant(form.constant, static_cast<size_t>(to.rank()))) : std::nullopt;
  }
}

}  // namespace braze::passes
