// loops/schedule/nest_values.cpp: the values of a kernel, evaluated where they are needed.
#include "loops/schedule/nest_values.h"

#include <algorithm>

#include "support/error.h"

namespace braze::loops {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// The last `rank` dimensions: those that a right-aligned operand of that rank has.
Label aligned(const Label& label, size_t rank) {
  return Label(label.end() - static_cast<int64_t>(std::min(rank, label.size())), label.end());
}

/// Whether a value shows numbers of an iota, all of them below `extent`.
bool counts_below(const Value* value, Size extent, const SizeRules& rules) {
  while (ir::info(value->def->op).kind == OpKind::View) value = value->def->operands[0];
  return value->def->op == Op::iota && rules.at_most(value->type->symbolic_numel(), extent);
}

}  // namespace

Builder NestValues::at(int level) {
  BRAZE_CHECK(blocks_[static_cast<size_t>(level)], "a value is needed outside of the loop that its axis runs in");
  return Builder(kernel_, *blocks_[static_cast<size_t>(level)]);
}

NestValues::Scalar NestValues::constant(DType type, Number number) {
  return {at(0).constant(type, number), 0};
}

NestValues::Scalar NestValues::combine(Op op, Scalar a, Scalar b) {
  const int level = std::max(a.level, b.level);
  return {at(level).compute(op, {a.id, b.id}), level};
}

NestValues::Scalar NestValues::as_value(const Index& index) {
  return {at(index.level).affine(index.affine), index.level};
}

NestValues::Index NestValues::whole_number(Scalar value) const {
  Index index;
  index.affine.add(1, value.id);
  index.level = value.level;
  return index;
}

// ---- indices

NestValues::Index NestValues::index_of(const AxisList& list) {
  Index out;
  Size factor = 1;
  const AxisList leaves = group_.space.leaves(list);
  for (size_t k = leaves.size(); k-- > 0;) {
    const size_t leaf = leaves_.index_of(leaves[k]);
    const Index& part = leaf_value_[leaf];
    extents_.add(out.affine, factor, part.affine);
    if (!part.affine.terms.empty()) out.level = std::max(out.level, part.level);
    factor = factor * leaves_.sizes[leaf];
  }
  return out;
}

std::vector<NestValues::Index> NestValues::place_of(const Label& label, std::span<const Size> sizes) {
  std::vector<Index> place(sizes.size());
  const Label own = aligned(label, sizes.size());
  for (size_t k = 1; k <= own.size(); ++k)
    if (sizes[sizes.size() - k] != 1) place[sizes.size() - k] = index_of(own[own.size() - k]);
  return place;
}

std::vector<NestValues::Index> NestValues::back_through(const Node* view, const std::vector<Index>& place) {
  const auto from = view->operands[0]->type->sizes.symbolic();
  const auto to = view->results[0].type->sizes.symbolic();
  std::vector<Index> out(from.size());
  switch (view->op) {
    case Op::permute: {
      const auto dims = view->ints_attr("dims");
      for (size_t k = 0; k < dims.size(); ++k) out[static_cast<size_t>(dims[k])] = place[k];
      return out;
    }
    case Op::expand:
      for (size_t k = 1; k <= from.size(); ++k)
        if (from[from.size() - k] != 1) out[from.size() - k] = place[to.size() - k];
      return out;
    case Op::slice: {
      out = place;
      const auto dim = static_cast<size_t>(view->int_attr("dim"));
      Index& index = out[dim];
      index.affine = extents_.scaled(view->size_attr("step"), index.affine);
      extents_.add_offset(index.affine, view->size_attr("start"));
      return out;
    }
    case Op::flip:
      out = place;
      for (int64_t dim : view->ints_attr("dims")) {
        Index& index = out[static_cast<size_t>(dim)];
        index.affine = extents_.scaled(-1, index.affine);
        extents_.add_offset(index.affine, from[static_cast<size_t>(dim)] - 1);
      }
      return out;
    case Op::index_map: {
      const auto origin = view->sizes_attr("origin"), map = view->sizes_attr("map");
      for (size_t d = 0; d < from.size(); ++d) {
        out[d].affine.offset = extents_.of(origin[d]);
        for (size_t k = 0; k < to.size(); ++k) {
          const Size factor = map[d * to.size() + k];
          if (factor == 0) continue;
          extents_.add(out[d].affine, factor, place[k].affine);
          out[d].level = std::max(out[d].level, place[k].level);
        }
      }
      return out;
    }
    default: break;
  }
  BRAZE_CHECK(view->op == Op::reshape, "not a view: ", ir::info(view->op).name);
  // Dimensions other than 1 that correspond one to one need no arithmetic; the rest goes through the flat index.
  std::vector<size_t> a, b;
  for (size_t k = 0; k < from.size(); ++k)
    if (from[k] != 1) a.push_back(k);
  for (size_t k = 0; k < to.size(); ++k)
    if (to[k] != 1) b.push_back(k);
  const bool same = a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](size_t x, size_t y) {
                      return rules().equal(from[x], to[y]);
                    });
  if (same) {
    for (size_t k = 0; k < a.size(); ++k) out[a[k]] = place[b[k]];
    return out;
  }
  Index flat;
  Size factor = 1;
  for (size_t k = to.size(); k-- > 0; factor = factor * to[k]) {
    extents_.add(flat.affine, factor, place[k].affine);
    flat.level = std::max(flat.level, place[k].level);
  }
  if (a.empty()) return out;
  Scalar rest = as_value(flat);
  for (size_t k = a.size(); k-- > 0;) {
    const Scalar size{extents_.divisor(at(0), from[a[k]]), 0};
    out[a[k]] = whole_number(k == 0 ? rest : combine(Op::remainder, rest, size));
    if (k > 0) rest = combine(Op::floor_div, rest, size);
  }
  return out;
}

NestValues::Scalar NestValues::size_value(Size size) {
  return {extents_.value(at(0), size), 0};
}

Affine NestValues::offset_of(const Window& window, const std::vector<Index>& place, int& level) {
  Affine out;
  out.offset = extents_.of(window.offset);
  for (size_t k = 0; k < place.size(); ++k) {
    const Size stride = window.strides[k];
    if (stride == 0 || window.sizes[k] == 1) continue;
    extents_.add(out, stride, place[k].affine);
    if (!place[k].affine.terms.empty()) level = std::max(level, place[k].level);
  }
  return out;
}

// ---- memory

BufferId NestValues::buffer_of(const Value* base, Access access) {
  for (size_t k = 0, parameter = 0; k < kernel_.buffers.size(); ++k) {
    if (!kernel_.buffers[k].is_parameter) continue;
    if (draft_.parameters[parameter++].value == base) return static_cast<BufferId>(k);
  }
  Buffer buffer;
  buffer.name = concat("v", base->id);
  buffer.dtype = base->type->dtype;
  buffer.access = access;
  buffer.may_alias = false;  // what a kernel writes is never memory that anything else in the launch uses
  buffer.alignment = facts_.windows.alignment(base);
  kernel_.buffers.push_back(std::move(buffer));
  draft_.parameters.push_back({base, 0});
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

NestValues::Scalar NestValues::load(const Window& window, const std::vector<Index>& place) {
  return load_if({}, window, place, {});
}

NestValues::Scalar NestValues::load_if(Scalar predicate, const Window& window, const std::vector<Index>& place,
                                       Scalar otherwise) {
  int level = 0;
  if (predicate.id != none) level = std::max(predicate.level, otherwise.level);
  const Affine offset = offset_of(window, place, level);
  const BufferId buffer = buffer_of(window.base, Access::in);
  if (predicate.id == none)
    if (const Scalar nearby = load_nearby(buffer, offset, place); nearby.id != none) return nearby;
  return {at(level).load(buffer, offset, predicate.id, otherwise.id), level};
}

NestValues::Scalar NestValues::scalar_parameter(const Node* node) {
  if (node->op == Op::size) {
    const ValueId size = extents_.value(at(0), node->size_attr("of"));
    return {at(0).cast(size, ir::compute_dtype(node->results[0].type->dtype)), 0};
  }
  const auto it = std::find(scalar_nodes_.begin(), scalar_nodes_.end(), node);
  auto slot = static_cast<uint32_t>(it - scalar_nodes_.begin());
  if (it == scalar_nodes_.end()) {
    scalar_nodes_.push_back(node);
    const DType type = ir::compute_dtype(node->results[0].type->dtype);
    kernel_.scalars.push_back({concat("s", slot), type});
    draft_.scalars.push_back(node->number_attr("value"));
  }
  return {at(0).scalar(slot), 0};
}

// ---- values

NestValues::Scalar NestValues::read(const Value* value, const Label& label) {
  if (facts_.is_free(value)) return free_value(value, place_of(label, value->type->sizes.symbolic()));
  const Value* base = facts_.windows.base(value);
  if (group_.find(value) || (group_.find(base) && inside_.contains(base->def))) return member(base);
  return read_kept(value, label);
}

/// A load that passes over the reduced axes may have kept for each other.
NestValues::Scalar NestValues::read_kept(const Value* value, const Label& label) {
  std::vector<Index> place = place_of(label, value->type->sizes.symbolic());
  if (!target_.is_gpu() || passes_ == 1 || nest_.form != LoopNest::Form::rows ||
      is_number(facts_.windows.base(value)->def->op))
    return read_at(value, std::move(place));
  const Label leaves = group_.space.leaves(label);
  for (Kept& kept : kept_) {
    if (kept.value != value || kept.label != leaves) continue;
    if (kept.filled && kept.pass != pass_) {
      kept.pass = pass_;
      memo_.push_back({value, place, {at(2).load(kept.buffer, place_in_row()), 2}});
    }
    const Scalar result = read_at(value, std::move(place));
    if (!kept.filled) at(2).store(kept.buffer, place_in_row(), result.id);
    kept.filled = true;
    kept.pass = pass_;
    return result;
  }
  const Scalar result = read_at(value, std::move(place));
  if (result.level == 2) reads_.push_back({value, leaves, pass_});
  return result;
}

NestValues::Scalar NestValues::read_at(const Value* value, std::vector<Index> place) {
  for (const Memo& memo : memo_) {
    if (memo.value != value || memo.place.size() != place.size()) continue;
    if (std::equal(place.begin(), place.end(), memo.place.begin(),
                   [](const Index& a, const Index& b) { return a.affine == b.affine; }))
      return memo.scalar;
  }
  const Window& window = facts_.windows.of(value);
  const Scalar result = is_number(window.base->def->op) ? scalar_parameter(window.base->def) : load(window, place);
  memo_.push_back({value, std::move(place), result});
  return result;
}

NestValues::Scalar NestValues::free_value(const Value* value, const std::vector<Index>& place) {
  const Node* node = value->def;
  if (is_number(node->op)) {
    for (const Memo& memo : memo_)
      if (memo.value == value) return memo.scalar;
    const Scalar result = scalar_parameter(node);
    memo_.push_back({value, {}, result});
    return result;
  }
  if (node->op == Op::iota) {
    Scalar index = as_value(place[0]);
    return {at(index.level).cast(index.id, ir::compute_dtype(value->type->dtype)), index.level};
  }
  if (ir::info(node->op).kind == OpKind::View) return free_value(node->operands[0], back_through(node, place));
  std::vector<Scalar> operands;
  for (const Value* operand : node->operands) {
    const auto sizes = operand->type->sizes.symbolic();
    std::vector<Index> own(sizes.size());
    for (size_t k = 1; k <= sizes.size(); ++k)
      if (sizes[sizes.size() - k] != 1) own[sizes.size() - k] = place[place.size() - k];
    operands.push_back(free_value(operand, own));
  }
  return elementwise(node, operands);
}

Affine NestValues::place_in_row() {
  Affine index;
  Size factor = 1;
  for (size_t k = nest_.reduced.size(); k-- > 0; factor = factor * nest_.reduced[k].size)
    extents_.add(index, factor, leaf_value_[nest_.reduced[k].innermost()].affine);
  return index;
}

NestValues::Scalar NestValues::member(const Value* value) {
  for (const Memo& memo : memo_)
    if (memo.value == value && memo.place.empty()) return memo.scalar;
  for (Kept& kept : kept_) {
    if (kept.value != value || !kept.filled) continue;
    const Scalar result{at(2).load(kept.buffer, place_in_row()), 2};
    memo_.push_back({value, {}, result});
    return result;
  }
  const Scalar result = compute_member(value->def);
  memo_.push_back({value, {}, result});
  for (Kept& kept : kept_) {
    if (kept.value != value || kept.filled) continue;
    at(2).store(kept.buffer, place_in_row(), result.id);
    kept.filled = true;  // for later passes; this one has it in a register
  }
  return result;
}

NestValues::Scalar NestValues::compute_member(const Node* node) {
  const Value* result = &node->results[0];
  const Label& label = *group_.find(result);
  switch (ir::info(node->op).kind) {
    case OpKind::Gather: return gathered(node);
    case OpKind::Pad: return padded(node);
    case OpKind::Scatter: return scattered(node);
    case OpKind::View: {
      const Label* operand = group_.find_reshaped(node);
      return operand ? read(node->operands[0], *operand) : linearised(node);
    }
    case OpKind::Reduction:
      BRAZE_CHECK(false, "a reduction is read before its pass has run: ", ir::info(node->op).name);
      break;
    default: break;
  }
  std::vector<Scalar> operands;
  for (const Value* operand : node->operands) operands.push_back(read(operand, label));
  return elementwise(node, operands);
}

NestValues::Scalar NestValues::elementwise(const Node* node, const std::vector<Scalar>& operands) {
  int level = 0;
  std::vector<ValueId> ids;
  for (const Scalar& operand : operands) {
    level = std::max(level, operand.level);
    ids.push_back(operand.id);
  }
  Builder builder = at(level);
  if (node->op != Op::cast) return {builder.compute(node->op, std::move(ids)), level};
  // A conversion to a half type rounds even where the value is never stored.
  const DType to = node->results[0].type->dtype, from = node->operands[0]->type->dtype;
  ValueId value = ids[0];
  if (to != ir::compute_dtype(to) && to != from) value = builder.cast(value, to);
  return {builder.cast(value, ir::compute_dtype(to)), level};
}

NestValues::Scalar NestValues::gathered(const Node* node) {
  const Value* table = node->operands[0];
  const Window& window = facts_.windows.of(table);
  const Label& label = *group_.find(&node->results[0]);
  const std::vector<Index> place = place_of(label, node->results[0].type->sizes.symbolic());
  auto checked = [&](size_t operand, const Label& at_label, Size extent, bool wraps) {
    Scalar index = read(node->operands[operand], at_label);
    index.id = at(index.level).cast(index.id, DType::i64);
    if (counts_below(node->operands[operand], extent, rules())) return whole_number(index);
    if (wraps) {
      const Scalar size = size_value(extent), zero = constant(DType::i64, Number::of_int(0));
      const Scalar negative = combine(Op::lt, index, zero), wrapped = combine(Op::add, index, size);
      const int level = std::max(negative.level, wrapped.level);
      index = {at(level).compute(Op::where, {negative.id, wrapped.id, index.id}), level};
    }
    return whole_number({at(index.level).checked(index.id, extents_.of(extent)), index.level});
  };
  std::vector<Index> where(window.sizes.size());
  switch (node->op) {
    case Op::embedding: {
      const auto rank = static_cast<size_t>(node->operands[1]->type->rank());
      where[0] =
          checked(1, Label(label.begin(), label.begin() + static_cast<int64_t>(rank)), window.sizes[0], false);
      for (size_t k = 1; k < where.size(); ++k) where[k] = place[rank + k - 1];
      break;
    }
    case Op::index_select: {
      const auto dim = static_cast<size_t>(node->int_attr("dim"));
      where = place;
      where[dim] = checked(1, {label[dim]}, window.sizes[dim], false);
      break;
    }
    case Op::gather: {
      const auto dim = static_cast<size_t>(node->int_attr("dim"));
      where = place;
      where[dim] = checked(1, label, window.sizes[dim], false);
      break;
    }
    default: {  // index: operands 1.. pick along adjacent dimensions
      const auto dims = node->ints_attr("dims");
      const auto first = static_cast<size_t>(dims[0]);
      size_t rank = 0;
      for (size_t k = 1; k < node->operands.size(); ++k)
        rank = std::max(rank, static_cast<size_t>(node->operands[k]->type->rank()));
      const Label part(label.begin() + static_cast<int64_t>(first),
                       label.begin() + static_cast<int64_t>(first + rank));
      for (size_t k = 0; k < first; ++k) where[k] = place[k];
      for (size_t k = 0; k < dims.size(); ++k)
        where[first + k] = checked(k + 1, part, window.sizes[first + k], true);
      for (size_t k = first + dims.size(); k < where.size(); ++k) where[k] = place[k - dims.size() + rank];
      break;
    }
  }
  return load(window, where);
}

NestValues::Scalar NestValues::padded(const Node* node) {
  const Value* from = node->operands[0];
  const auto low = node->sizes_attr("low");
  const auto out = node->results[0].type->sizes.symbolic(), in = from->type->sizes.symbolic();
  std::vector<Index> place = place_of(*group_.find(&node->results[0]), out);
  Scalar inside;
  bool outside = false;
  for (size_t k = 0; k < place.size(); ++k) {
    extents_.add_offset(place[k].affine, -low[k]);
    const bool below = !rules().at_most(low[k], 0), above = !rules().at_most(out[k] - low[k], in[k]);
    auto require = [&](Op op, Size bound) {
      const int answer = known_answer(place[k], op, bound);
      outside |= answer == 0;
      if (answer >= 0) return;
      const Scalar test = combine(op, as_value(place[k]), size_value(bound));
      inside = inside.id == none ? test : combine(Op::bitwise_and, inside, test);
    };
    if (below) require(Op::ge, 0);
    if (above) require(Op::lt, in[k]);
  }
  const Scalar fill = read(node->operands[1], {});
  if (outside) return fill;
  if (inside.id == none) return load(facts_.windows.of(from), place);
  return load_if(inside, facts_.windows.of(from), place, fill);
}

NestValues::Scalar NestValues::scattered(const Node* node) {
  const Label& label = *group_.find(&node->results[0]);
  const Scalar base = read(node->operands[0], label);
  const Value* source = node->operands[1];
  const auto dim = static_cast<size_t>(node->int_attr("dim"));
  const Size start = node->size_attr("start"), step = node->size_attr("step"),
             count = source->type->sizes.symbolic()[dim];
  std::vector<Index> place = place_of(label, node->results[0].type->sizes.symbolic());
  if (count == 0) return base;
  Scalar inside = combine(Op::ge, as_value(place[dim]), size_value(start));
  inside = combine(Op::bitwise_and, inside,
                   combine(Op::le, as_value(place[dim]), size_value(start + (count - 1) * step)));
  extents_.add_offset(place[dim].affine, -start);
  if (step != 1) {
    const Scalar by{extents_.divisor(at(0), step), 0}, distance = as_value(place[dim]);
    inside =
        combine(Op::bitwise_and, inside,
                combine(Op::eq, combine(Op::remainder, distance, by), constant(DType::i64, Number::of_int(0))));
    place[dim] = whole_number(combine(Op::floor_div, distance, by));
  }
  return load_if(inside, facts_.windows.of(source), place, base);
}

NestValues::Scalar NestValues::linearised(const Node* reshape) {
  const std::vector<Index> place =
      place_of(*group_.find(&reshape->results[0]), reshape->results[0].type->sizes.symbolic());
  const Value* operand = reshape->operands[0];
  std::vector<Index> from = back_through(reshape, place);
  return facts_.is_free(operand) ? free_value(operand, from) : read_at(operand, std::move(from));
}

}  // namespace braze::loops
