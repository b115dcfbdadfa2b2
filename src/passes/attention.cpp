#include "passes/attention.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/shapes.h"
#include "passes/bounds.h"
#include "passes/rewrite.h"

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
std::optional<Sizes> dense_strides(const Type& type) {
  std::vector<size_t> order(type.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (type.is_contiguous()) return contiguous_strides(type.sizes);
  std::ranges::sort(order, std::greater(), [&](size_t dim) { return type.strides[dim]; });
  Sizes strides(order.size());
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const size_t dim = order[k];
    if (type.sizes[dim] <= 1 || type.strides[dim] != step) return std::nullopt;
    strides[dim] = step;
    step *= type.sizes[dim];
  }
  return strides;
}

class AttentionPass {
 public:
  explicit AttentionPass(Graph& graph) : graph_(graph), uses_(graph.value_limit()) {
    for (const Node* node = graph.first(); node; node = node->next)
      for (const Value* operand : node->operands) ++uses_[operand->id];
    // A result of the graph is needed as it is.
    for (const Value* output : graph.outputs()) uses_[output->id] += 2;
    for (const Mutation& mutation : graph.mutations()) uses_[mutation.value->id] += 2;
  }

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
    const bool known = value->id < uses_.size();  // nodes of an earlier match are not counted
    return value->def->op == op && known && uses_[value->id] == 1 ? value->def : nullptr;
  }

  /// `last` is the reshape of the second bmm to [B,H,L,E].
  std::optional<Match> find(const Node& last) const {
    const Type& out = *last.results[0].type;
    if (out.rank() != 4 || out.device.kind != DeviceKind::cpu || out.numel() == 0) return std::nullopt;
    if (out.dtype != DType::f32 && out.dtype != DType::f64) return std::nullopt;

    const Node* second = only(last.operands[0], Op::bmm);
    if (!second || !splits(*second->results[0].type, out.sizes)) return std::nullopt;
    const Node* flat = only(second->operands[0], Op::reshape);
    const Node* softmax = flat ? only(flat->operands[0], Op::softmax) : nullptr;
    if (!softmax || softmax->int_attr("dim") != 3) return std::nullopt;
    const auto scores_sizes = softmax->results[0].type->sizes;
    if (!std::ranges::equal(scores_sizes.first(3), out.sizes.first(3))) return std::nullopt;

    Match match{};
    match.v = second->operands[1];
    Value* scores = strip_mask(softmax->operands[0], scores_sizes, match);
    scores = scores ? strip_scale(scores, match) : nullptr;
    const Node* unflat = scores ? only(scores, Op::reshape) : nullptr;
    const Node* first = unflat ? only(unflat->operands[0], Op::bmm) : nullptr;
    if (!first || !std::ranges::equal(unflat->results[0].type->sizes, scores_sizes)) return std::nullopt;
    match.q = first->operands[0];
    match.kt = first->operands[1];
    // The library wants one size of head.
    return match.q->type->sizes[2] == match.v->type->sizes[2] ? std::optional(match) : std::nullopt;
  }

  /// [B*H,M,N] beside [B,H,M,N].
  static bool splits(const Type& flat, std::span<const int64_t> sizes) {
    return flat.sizes[1] == sizes[2] && flat.sizes[2] == sizes[3];
  }

  /// What the mask is added to; the scores themselves if there is none; null if the mask will not do.
  Value* strip_mask(Value* scores, std::span<const int64_t> sizes, Match& match) const {
    const Node* add = only(scores, Op::add);
    if (!add) return scores;
    for (const size_t k : {1, 0}) {
      Value* mask = add->operands[k];
      Value* rest = add->operands[1 - k];
      if (!std::ranges::equal(rest->type->sizes, sizes) || !is_mask(*mask->type) || !bounds(mask)) continue;
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
  Value* unflatten(Value* flat, int64_t batch, int64_t heads) {
    const Sizes sizes = {batch, heads, flat->type->sizes[1], flat->type->sizes[2]};
    if (flat->def->op == Op::reshape) {
      Value* origin = Graph::resolve(flat->def->operands[0]);
      if (std::ranges::equal(origin->type->sizes, sizes)) return origin;
    }
    return graph_.create(Op::reshape, {flat}, {},
                         graph_.contiguous_type(flat->type->dtype, flat->type->device, sizes));
  }

  /// The last two dimensions swapped; a transpose of a transpose is the original.
  Value* transpose(Value* value) {
    static constexpr int64_t swapped[] = {0, 1, 3, 2};
    const Node* def = value->def;
    if (def->op == Op::permute && std::ranges::equal(def->ints_attr("dims"), swapped))
      return Graph::resolve(def->operands[0]);
    const Type& from = *value->type;
    Sizes sizes, strides;
    for (const int64_t dim : swapped) {
      sizes.push_back(from.sizes[dim]);
      strides.push_back(from.strides[dim]);
    }
    return graph_.create(Op::permute, {value}, {{"dims", std::span<const int64_t>(swapped)}},
                         graph_.type(from.dtype, from.device, sizes, strides));
  }

  void replace(Node& last, const Match& match) {
    const Type* out = last.results[0].type;
    const int64_t batch = out->sizes[0], heads = out->sizes[1];
    graph_.set_insertion_point(&last);
    graph_.set_source(last.source);
    Value* q = unflatten(match.q, batch, heads);
    const auto strides = dense_strides(*q->type);
    if (!strides) return;
    std::vector<Value*> operands = {q, transpose(unflatten(match.kt, batch, heads)),
                                    unflatten(match.v, batch, heads)};
    if (match.mask) operands.push_back(match.mask);
    const Attr attrs[] = {{"causal", false}, {"scale", Number::of(match.scale)}};
    const Type* type = graph_.type(out->dtype, out->device, out->sizes, *strides);
    Value* result = graph_.create(Op::sdpa, operands, attrs, std::span(&type, 1))->result();
    // The old result was row-major; what follows may rely on it.
    if (type != out) result = graph_.create(Op::reshape, {result}, {}, out);
    graph_.replace(last.result(), result);
    graph_.erase(&last);
  }

  Graph& graph_;
  std::vector<uint32_t> uses_;  ///< By Value::id.
};

}  // namespace

void attention(Graph& graph) {
  AttentionPass(graph).run();
}

}  // namespace braze::passes
