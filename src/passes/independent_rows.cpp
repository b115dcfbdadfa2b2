#include "passes/independent_rows.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>

#include "ir/shape_env.h"
#include "support/error.h"

namespace braze::passes {

using namespace ir;

namespace {

/// Thrown where rows are not independent; caught in independent_rows().
struct Refused {
  std::string why;
};

bool depends(Size size, uint32_t slot);

bool depends(const SizeAtom& atom, uint32_t slot) {
  if (atom.kind == SizeAtom::Kind::symbol) return atom.slot == slot;
  return std::ranges::any_of(atom.operands, [&](Size operand) { return depends(operand, slot); });
}

bool depends(Size size, uint32_t slot) {
  if (size.is_constant()) return false;
  for (const SizeTerm& term : size.expr()->terms)
    for (const SizeProduct::Power& power : term.product->powers)
      if (depends(*power.atom, slot)) return true;
  return false;
}

/// size / symbol, where that is a whole number that does not depend on the symbol.
std::optional<Size> block_of(Size size, uint32_t slot, SizeTable& table) {
  if (size.is_constant()) return std::nullopt;
  const SizeAtom* symbol = nullptr;
  for (const SizeTerm& term : size.expr()->terms)
    for (const SizeProduct::Power& power : term.product->powers)
      if (power.atom->kind == SizeAtom::Kind::symbol && power.atom->slot == slot) symbol = power.atom;
  if (!symbol) return std::nullopt;
  const SizeProduct* const rows = table.product({{symbol, 1}});
  std::vector<SizeTerm> parts;
  for (const SizeTerm& term : size.expr()->terms) {
    const SizeProduct* part = table.divide(term.product, rows);
    if (!part) return std::nullopt;
    parts.push_back({part, term.coefficient});
  }
  const Size block = table.sum(std::move(parts));
  return depends(block, slot) ? std::nullopt : std::optional(block);
}

bool has_size_of(const AttrValue& value, uint32_t slot) {
  if (const auto* size = std::get_if<Size>(&value)) return depends(*size, slot);
  if (const auto* sizes = std::get_if<std::span<const Size>>(&value))
    return std::ranges::any_of(*sizes, [&](Size size) { return depends(size, slot); });
  return false;
}

/// Operators of ATen whose results' first dimension is that of all operands that have rows: batches.
constexpr std::string_view calls_of_batches[] = {
    "aten::convolution",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
};

class Analysis {
 public:
  Analysis(Graph& graph, uint32_t slot) : graph_(graph), slot_(slot), table_(graph.shape_env().table()) {}

  IndependentRows run() {
    IndependentRows found;
    if (!graph_.mutations().empty()) throw Refused{"an input is written"};
    for (const Input& input : graph_.inputs())
      found.inputs.push_back(take(input.value, rows_in(*input.value->type)));
    for (Node* node = graph_.first(); node; node = node->next) visit(*node);
    for (const Value* output : graph_.outputs()) found.outputs.push_back(of(output));
    if (std::ranges::none_of(found.inputs, [](const auto& rows) { return rows.has_value(); }))
      throw Refused{"no input has such rows"};
    return found;
  }

 private:
  using MaybeRows = std::optional<Rows>;

  MaybeRows of(const Value* value) const {
    const auto found = rows_.find(value);
    return found == rows_.end() ? std::nullopt : MaybeRows(found->second);
  }

  /// By the sizes of the type alone.
  MaybeRows rows_in(const Type& type) const {
    MaybeRows rows;
    const auto sizes = type.sizes.symbolic();
    for (uint32_t d = 0; d < sizes.size(); ++d) {
      if (!depends(sizes[d], slot_)) continue;
      const auto block = block_of(sizes[d], slot_, table_);
      if (rows || !block) throw Refused{concat("a size is ", to_text(sizes[d]))};
      rows = Rows{d, *block};
    }
    return rows;
  }

  /// A rule's word about a value is held against its type, so that no rule can be wrong about where rows lie.
  MaybeRows take(const Value* value, MaybeRows rows) {
    if (rows != rows_in(*value->type)) throw Refused{"rows change their place"};
    if (rows) rows_.emplace(value, *rows);
    return rows;
  }

  [[noreturn]] static void refuse(const Node& node) {
    const std::string_view target = node.op == Op::call ? node.text_attr("target") : info(node.op).name;
    throw Refused{concat("`", target, "`", node.source.empty() ? "" : concat(" (", node.source, ")"),
                         " is not known to compute each row by itself")};
  }

  void visit(Node& node) {
    for (const Attr& attr : node.attrs)
      if (has_size_of(attr.value, slot_)) throw Refused{concat("`", info(node.op).name, "` is given their number")};
    const bool reads_rows =
        std::ranges::any_of(node.operands, [&](const Value* value) { return of(value).has_value(); });
    const bool has_rows = std::ranges::any_of(node.results, [&](const Value& value) {
      return std::ranges::any_of(value.type->sizes.symbolic(), [&](Size size) { return depends(size, slot_); });
    });
    if (node.op == Op::call && node.find("arguments") &&
        node.text_attr("arguments").find("size(") != std::string_view::npos)
      refuse(node);
    if (!reads_rows && !has_rows) return;
    if (node.has_effect()) refuse(node);  // random numbers: how many are drawn is seen by whoever draws next
    for (Value& result : node.results) take(&result, rule(node, result));
  }

  /// Where the rows of a result are.
  MaybeRows rule(const Node& node, const Value& result) const {
    switch (info(node.op).kind) {
      case OpKind::Source:
        if (node.op != Op::iota) refuse(node);
        return rows_in(*result.type);
      case OpKind::Unary:
      case OpKind::UnaryTest:
      case OpKind::Cast:
      case OpKind::Binary:
      case OpKind::Compare:
      case OpKind::Ternary: return broadcast(node, result);
      case OpKind::View: return view(node, result);
      case OpKind::Concat: return across(node, node.int_attr("dim"), all_alike(node));
      case OpKind::Pad: return pad(node);
      case OpKind::Scatter: return across(node, node.int_attr("dim"), all_alike(node));
      case OpKind::Gather: return gather(node);
      case OpKind::Scan: return across(node, node.int_attr("dim"), of(node.operands[0]));
      case OpKind::Reduction: return reduce(node);
      case OpKind::Composite: return composite(node, result);
      case OpKind::Library: return library(node, result);
      case OpKind::Update: break;
    }
    refuse(node);
  }

  /// All operands with rows have them at the same place of the result, to which they are broadcast.
  MaybeRows broadcast(const Node& node, const Value& result) const {
    MaybeRows rows;
    for (const Value* operand : node.operands) {
      MaybeRows theirs = of(operand);
      if (!theirs) continue;
      theirs->dim += static_cast<uint32_t>(result.type->rank() - operand->type->rank());
      if (rows && *rows != *theirs) refuse(node);
      rows = theirs;
    }
    return rows;
  }

  /// Every operand has them, at one place.
  MaybeRows all_alike(const Node& node) const {
    const MaybeRows rows = of(node.operands[0]);
    for (const Value* operand : node.operands)
      if (of(operand) != rows) refuse(node);
    return rows;
  }

  /// What is done along `dim` leaves rows alone that lie along another dimension.
  MaybeRows across(const Node& node, int64_t dim, MaybeRows rows) const {
    if (rows && rows->dim == dim) refuse(node);
    return rows;
  }
  MaybeRows across(const Node& node, std::span<const int64_t> dims, MaybeRows rows) const {
    for (const int64_t dim : dims) across(node, dim, rows);
    return rows;
  }

  MaybeRows view(const Node& node, const Value& result) const {
    const MaybeRows rows = of(node.operands[0]);
    switch (node.op) {
      case Op::permute: {
        const auto dims = node.ints_attr("dims");
        if (!rows) return rows;
        const auto place = std::ranges::find(dims, static_cast<int64_t>(rows->dim)) - dims.begin();
        return Rows{static_cast<uint32_t>(place), rows->block};
      }
      case Op::expand: return rows ? broadcast(node, result) : rows_in(*result.type);
      case Op::slice: return across(node, node.int_attr("dim"), rows);
      case Op::flip: return across(node, node.ints_attr("dims"), rows);
      case Op::reshape: return reshape(node, result);
      default: refuse(node);
    }
  }

  /// Rows stay together where as many elements lie before their dimension as did.
  MaybeRows reshape(const Node& node, const Value& result) const {
    const MaybeRows rows = of(node.operands[0]);
    const auto before = [](std::span<const Size> sizes, uint32_t dim) {
      Size product = 1;
      for (const Size size : sizes.first(dim)) product = product * size;
      return product;
    };
    const MaybeRows wanted = rows_in(*result.type);
    if (!rows || !wanted ||
        before(node.operands[0]->type->sizes.symbolic(), rows->dim) !=
            before(result.type->sizes.symbolic(), wanted->dim))
      refuse(node);
    return wanted;
  }

  MaybeRows pad(const Node& node) const {
    const MaybeRows rows = of(node.operands[0]);
    if (!rows || of(node.operands[1])) refuse(node);
    for (const std::string_view side : {"low", "high"})
      if (node.ints_attr(side)[rows->dim] != 0) refuse(node);
    return rows;
  }

  MaybeRows gather(const Node& node) const {
    const MaybeRows data = of(node.operands[0]), index = of(node.operands[1]);
    switch (node.op) {
      case Op::embedding:
        if (data) refuse(node);
        return index;
      case Op::index_select:
        if (index) refuse(node);
        return across(node, node.int_attr("dim"), data);
      case Op::gather:
        // Along the rows themselves it picks out of what all rows share.
        if (!data && index && index->dim == node.int_attr("dim")) return index;
        if (data != index) refuse(node);
        return across(node, node.int_attr("dim"), data);
      default: refuse(node);
    }
  }

  MaybeRows reduce(const Node& node) const {
    const auto dims = node.ints_attr("dims");
    MaybeRows rows = across(node, dims, of(node.operands[0]));
    if (rows && !node.bool_attr("keepdim"))
      rows->dim -= static_cast<uint32_t>(
          std::ranges::count_if(dims, [&](int64_t dim) { return dim < static_cast<int64_t>(rows->dim); }));
    return rows;
  }

  MaybeRows composite(const Node& node, const Value& result) const {
    switch (node.op) {
      case Op::mean:
      case Op::var: return reduce(node);
      case Op::softmax:
      case Op::log_softmax: return across(node, node.int_attr("dim"), of(node.operands[0]));
      case Op::layer_norm: {
        const MaybeRows rows = of(node.operands[0]);
        for (const Value* other : node.operands.subspan(1))
          if (of(other)) refuse(node);
        if (rows && rows->dim + node.int_attr("rank") >= static_cast<int64_t>(node.operands[0]->type->rank()))
          refuse(node);
        return rows;
      }
      default: return broadcast(node, result);
    }
  }

  MaybeRows library(const Node& node, const Value& result) const {
    const size_t count = node.operands.size();
    const auto is_batch = [&](const Value* operand) {
      const MaybeRows rows = of(operand);
      return !rows || rows->dim == 0;
    };
    switch (node.op) {
      case Op::mm: return product(node, of(node.operands[0]), of(node.operands[1]), 0);
      case Op::bmm: return product(node, of(node.operands[0]), of(node.operands[1]), 1);
      case Op::addmm:
      case Op::baddbmm: {
        const MaybeRows rows =
            product(node, of(node.operands[count - 2]), of(node.operands[count - 1]), node.op == Op::addmm ? 0 : 1);
        MaybeRows added = of(node.operands[0]);
        if (added) added->dim += static_cast<uint32_t>(result.type->rank() - node.operands[0]->type->rank());
        if (added && added != rows) refuse(node);
        return rows;
      }
      case Op::sdpa:
        for (const Value* operand : node.operands.first(3))
          if (of(operand) != of(node.operands[0])) refuse(node);
        if (!std::ranges::all_of(node.operands, is_batch)) refuse(node);
        return of(node.operands[0]);
      default:
        if (std::ranges::find(calls_of_batches, node.text_attr("target")) == std::end(calls_of_batches) ||
            !of(node.operands[0]) || !std::ranges::all_of(node.operands, is_batch))
          refuse(node);
        return rows_in(*result.type);
    }
  }

  /// Of matrices whose rows are dimension `first`: in batches, before it.
  MaybeRows product(const Node& node, MaybeRows a, MaybeRows b, uint32_t first) const {
    if (a && b && a->dim < first && *a == *b) return a;
    if (a && !b && a->dim == first) return a;
    if (b && !a && b->dim == first + 1) return b;
    refuse(node);
  }

  const Graph& graph_;
  const uint32_t slot_;
  SizeTable& table_;
  std::unordered_map<const Value*, Rows> rows_;
};

}  // namespace

IndependentRows independent_rows(Graph& graph, uint32_t slot) {
  if (!graph.find_shape_env()) return {.inputs = {}, .outputs = {}, .refused = "all sizes are numbers"};
  try {
    return Analysis(graph, slot).run();
  } catch (const Refused& refused) {
    return {.inputs = {}, .outputs = {}, .refused = refused.why};
  }
}

}  // namespace braze::passes
