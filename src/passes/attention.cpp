#include "passes/attention.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/infer.h"
#include "ir/shapes.h"
#include "passes/bounds.h"
#include "passes/rewrite.h"
#include "passes/uses.h"

namespace braze::passes {

using namespace ir;

namespace {

struct Match {
  Value *q, *kt, *v;      ///< As the two bmm see them: [B*H, L, E], [B*H, E, S], [B*H, S, E].
  Value* mask = nullptr;  ///< Added to the scores.
  double scale = 1;
};

/// The layout of at::empty_like(q), which is that of the library's result: dense, dimensions in q's order. Nothing
/// where q's strides leave the order open.
std::optional<SymbolicSizes> dense_strides(const Type& type) {
  const auto sizes = type.sizes.symbolic(), strides = type.strides.symbolic();
  if (type.is_contiguous()) return contiguous_strides(sizes);
  // Each dimension's stride is the product of the sizes of those within it.
  SymbolicSizes dense(sizes.size());
  std::vector<bool> placed(sizes.size());
  Size step = 1;
  for (size_t count = 0; count < sizes.size(); ++count) {
    size_t next = sizes.size();
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      if (!placed[dim] && strides[dim] == step) next = next == sizes.size() ? dim : sizes.size() + 1;
    if (next >= sizes.size() || (sizes[next].is_constant() && sizes[next].constant() <= 1)) return std::nullopt;
    placed[next] = true;
    dense[next] = step;
    step = step * sizes[next];
  }
  return dense;
}

class AttentionPass {
 public:
  explicit AttentionPass(Graph& graph) : graph_(graph), uses_(graph) {}

  void run() {
    Node* const insertion_point = graph_.insertion_point();
    const std::string_view source = graph_.source();
    for_each_node(graph_, [this](Node* node) {
      for (Value*& operand : node->operands) operand = Graph::resolve(operand);
      if (node->op != Op::reshape) return;
      if (const auto match = find(*node)) replace(*node, *match);
    });
    graph_.set_insertion_point(insertion_point);
    graph_.set_source(source);
    graph_.apply_replacements();
  }

 private:
  /// The node that defines `value`, if it has that op and nothing else uses the value.
  Node* only(Value* value, Op op) const {
    return value->def->op == op && uses_.only_reader(value) ? value->def : nullptr;
  }

  /// `last` is the reshape of the second bmm to [B,H,L,E].
  std::optional<Match> find(const Node& last) const {
    const Type& out = *last.results[0].type;
    if (out.rank() != 4 || out.device.kind != DeviceKind::cpu) return std::nullopt;
    if (!graph_.prove().differs(out.symbolic_numel(), 0)) return std::nullopt;
    if (out.dtype != DType::f32 && out.dtype != DType::f64) return std::nullopt;

    const Node* second = only(last.operands[0], Op::bmm);
    if (!second || !splits(*second->results[0].type, out.sizes.symbolic())) return std::nullopt;
    const Node* flat = only(second->operands[0], Op::reshape);
    const Node* softmax = flat ? only(flat->operands[0], Op::softmax) : nullptr;
    if (!softmax || softmax->int_attr("dim") != 3) return std::nullopt;
    const auto scores_sizes = softmax->results[0].type->sizes.symbolic();
    if (!std::ranges::equal(scores_sizes.first(3), out.sizes.symbolic().first(3))) return std::nullopt;

    Match match{};
    match.v = second->operands[1];
    Value* scores = strip_mask(softmax->operands[0], scores_sizes, match);
    scores = scores ? strip_scale(scores, match) : nullptr;
    const Node* unflat = scores ? only(scores, Op::reshape) : nullptr;
    const Node* first = unflat ? only(unflat->operands[0], Op::bmm) : nullptr;
    if (!first || !std::ranges::equal(unflat->results[0].type->sizes.symbolic(), scores_sizes)) return std::nullopt;
    match.q = first->operands[0];
    match.kt = first->operands[1];
    // The library wants one size of head.
    const auto q = match.q->type->sizes.symbolic(), v = match.v->type->sizes.symbolic();
    return q[2] == v[2] ? std::optional(match) : std::nullopt;
  }

  /// [B*H,M,N] beside [B,H,M,N].
  static bool splits(const Type& flat, std::span<const Size> sizes) {
    return flat.sizes.symbolic()[1] == sizes[2] && flat.sizes.symbolic()[2] == sizes[3];
  }

  /// What the mask is added to; the scores themselves if there is none; null if the mask will not do.
  Value* strip_mask(Value* scores, std::span<const Size> sizes, Match& match) const {
    const Node* add = only(scores, Op::add);
    if (!add) return scores;
    for (const size_t k : {1, 0}) {
      Value* mask = add->operands[k];
      Value* rest = add->operands[1 - k];
      if (!std::ranges::equal(rest->type->sizes.symbolic(), sizes) || !is_mask(*mask->type) || !bounds(mask))
        continue;
      match.mask = mask;
      return rest;
    }
    return nullptr;
  }

  /// The library takes [L,S] and [B,H,L,S], with sizes of 1 anywhere. add has checked that it broadcasts.
  static bool is_mask(const Type& type) { return type.rank() == 2 || type.rank() == 4; }

  Value* strip_scale(Value* scores, Match& match) const {
    for (const Op op : {Op::mul, Op::div}) {
      const Node* node = only(scores, op);
      if (!node) continue;
      const size_t at = op == Op::mul && Rewriter::constant(node->operands[0]) ? 0 : 1;
      const auto number = Rewriter::constant(node->operands[at]);
      if (!number) return nullptr;
      match.scale = op == Op::mul ? number->f : 1 / number->f;
      return node->operands[1 - at];
    }
    return scores;
  }

  /// The [B*H,M,N] value as [B,H,M,N]: what it was made from if that has the shape, else a reshape of it.
  Value* unflatten(Value* flat, Size batch, Size heads) {
    const auto from = flat->type->sizes.symbolic();
    const SymbolicSizes sizes = {batch, heads, from[1], from[2]};
    if (flat->def->op == Op::reshape) {
      Value* origin = Graph::resolve(flat->def->operands[0]);
      if (std::ranges::equal(origin->type->sizes.symbolic(), sizes)) return origin;
    }
    return graph_.add(Op::reshape, {flat}, {}, {.sizes = sizes});
  }

  /// The last two dimensions swapped; a transpose of a transpose is the original.
  Value* transpose(Value* value) {
    static constexpr int64_t swapped[] = {0, 1, 3, 2};
    const Node* def = value->def;
    if (def->op == Op::permute && std::ranges::equal(def->ints_attr("dims"), swapped))
      return Graph::resolve(def->operands[0]);
    return graph_.add(Op::permute, {value}, {{"dims", std::span<const int64_t>(swapped)}});
  }

  void replace(Node& last, const Match& match) {
    const Type* out = last.results[0].type;
    const Size batch = out->sizes.symbolic()[0], heads = out->sizes.symbolic()[1];
    graph_.set_insertion_point(&last);
    graph_.set_source(last.source);
    Value* q = unflatten(match.q, batch, heads);
    const auto strides = dense_strides(*q->type);
    if (!strides) return;
    std::vector<Value*> operands = {q, transpose(unflatten(match.kt, batch, heads)),
                                    unflatten(match.v, batch, heads)};
    if (match.mask) operands.push_back(match.mask);
    const Attr attrs[] = {{"causal", false}, {"scale", Number::of(match.scale)}};
    Value* result = graph_.add(Op::sdpa, operands, attrs, {.strides = *strides})->result();
    // The old result was row-major; what follows may rely on it.
    if (result->type != out) result = graph_.create(Op::reshape, {result}, {}, out);
    graph_.replace(last.result(), result);
    graph_.erase(&last);
  }

  Graph& graph_;
  const Uses uses_;
};

}  // namespace

void attention(Graph& graph) {
  AttentionPass(graph).run();
}

}  // namespace braze::passes
