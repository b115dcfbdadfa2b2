// Padding by elements of the tensor itself. Which ones is known now, but where sizes vary: their places are
// constants. A gradient is what the middle was given, and what was given to the elements that pads have repeated.
#include <algorithm>

#include "capture/arithmetic.h"
#include "capture/index_map.h"

namespace braze::capture {
namespace {

enum Mode { kReflect, kReplicate };

/// The same places as numbers that are computed: 0 ... size + low + high, less low, thrown back into the tensor.
ir::Value* computed_places(Call& call, Dim size, Dim low, Dim high, int mode) {
  Arithmetic a(call);
  const auto number = [&](Dim one) { return number_of(call.graph(), one, to_device(call.device())); };
  ir::Value* place = a.op(Op::sub, a.count(size + low + high), number(low));
  if (mode == kReplicate) return a.op(Op::minimum, a.op(Op::maximum, place, number(0)), number(size - 1));
  place = a.op(Op::sub, number(size - 1), a.op(Op::abs, place));
  return a.op(Op::sub, number(size - 1), a.op(Op::abs, place));
}

/// How the dimensions from `first` on are padded; pairs of (low, high) come from the last one on.
struct Pads {
  size_t first;
  c10::SmallVector<std::pair<Dim, Dim>, 3> sides;
};

std::optional<Pads> pads_of(Call& call, size_t argument, size_t rank) {
  const Sizes pairs = call.ints(argument);
  const size_t padded = pairs.size() / 2;
  if (pairs.size() % 2 || padded == 0 || padded >= rank) return std::nullopt;
  Pads pads{rank - padded, {}};
  for (size_t k = padded; k-- > 0;) pads.sides.emplace_back(pairs[2 * k], pairs[2 * k + 1]);
  return pads;
}

/// The places along one dimension that a padded one reads.
ir::Value* padded_places(Call& call, Dim size, Dim low, Dim high, int mode) {
  if (!size.is_number() || !low.is_number() || !high.is_number())
    return computed_places(call, size, low, high, mode);
  std::vector<int64_t> places;
  const int64_t count = size, before = low, out = size + low + high;
  for (int64_t i = 0; i < out; ++i) {
    int64_t place = i - before;
    if (mode == kReplicate) place = std::clamp<int64_t>(place, 0, count - 1);
    if (place < 0) place = -place;
    if (place >= count) place = 2 * (count - 1) - place;
    places.push_back(place);
  }
  return Arithmetic(call).constant(places);
}

/// What stands before and behind the elements of the last dimension of `value`: `low` and `high` of them.
ir::Value* side(Arithmetic& a, ir::Value* value, Dim count, bool is_before, int mode) {
  const DimsRef known = value->type->sizes;
  Sizes sizes(known.begin(), known.end());
  const auto last = static_cast<int64_t>(sizes.size()) - 1;
  const Dim size = sizes.back();
  if (mode == kReflect) return a.flip(a.slice(value, last, is_before ? Dim(1) : size - 1 - count, count), {last});
  sizes.back() = count;
  return a.expand(a.slice(value, last, is_before ? Dim(0) : size - 1, 1), sizes);
}

/// reflection_padNd(self, padding) and replication_padNd
bool mirrored(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || suggested_format(*x) != c10::MemoryFormat::Contiguous) return false;
  const auto pads = pads_of(call, 1, x->sizes.size());
  if (!pads) return false;
  Sizes sizes = x->sizes;
  for (size_t k = 0; k < pads->sides.size(); ++k) {
    const auto [low, high] = pads->sides[k];
    Dim& size = sizes[pads->first + k];
    if (size < 1 || size + low + high < 1) return false;
    if (row.variant == kReflect && (low >= size || high >= size)) return false;
    size += low + high;
  }
  Arithmetic a(call);
  const auto [low, high] = pads->sides.back();
  // On a CPU rows are copied, and only their ends gathered.
  const bool joins = call.device().is_cpu() && low >= 0 && high >= 0 && low + high > 0;
  const size_t gathered = pads->sides.size() - joins;
  c10::SmallVector<ir::Value*, 3> indices;
  for (size_t k = 0; k < gathered; ++k) {
    const auto [before, behind] = pads->sides[k];
    indices.push_back(
        a.along(padded_places(call, x->sizes[pads->first + k], before, behind, row.variant), k, gathered));
  }
  const auto along_others = [&](ir::Value* value) {
    if (indices.empty()) return value;
    return a.index(value, static_cast<int64_t>(pads->first), {indices.data(), indices.size()});
  };
  const ir::Type* type = call.contiguous(x->dtype, sizes);
  if (!joins) return call.give(call.copy(along_others(x->value), type));
  c10::SmallVector<ir::Value*, 3> parts;
  if (low > 0) parts.push_back(along_others(side(a, x->value, low, true, row.variant)));
  parts.push_back(along_others(x->value));
  if (high > 0) parts.push_back(along_others(side(a, x->value, high, false, row.variant)));
  const ir::Attr dim[] = {{"dim", static_cast<int64_t>(sizes.size()) - 1}};
  return call.give(call.graph().create(Op::cat, {parts.data(), parts.size()}, dim, {&type, 1})->result());
}

/// reflection_padNd_backward(grad, self, padding) and replication_padNd_backward: one dimension after the other.
bool mirrored_backward(Call& call, const RuleRow& row) {
  const auto g = call.operand(0), x = call.operand(1);
  if (!g || !x || g->is_number() || x->is_number() || !c10::isFloatingType(g->dtype) || g->dtype != x->dtype)
    return false;
  if (suggested_format(*x) != c10::MemoryFormat::Contiguous || g->sizes.size() != x->sizes.size()) return false;
  const auto pads = pads_of(call, 2, x->sizes.size());
  if (!pads || is_empty(g->sizes) || is_empty(x->sizes)) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(g->dtype);
  ir::Value* value = g->value;
  for (size_t k = 0; k < pads->sides.size(); ++k) {
    const auto dim = static_cast<int64_t>(pads->first + k);
    const auto [low, high] = pads->sides[k];
    const Dim size = x->sizes[dim];
    if (low == 0 && high == 0) continue;
    const size_t rank = x->sizes.size();
    // `part` stands in the dimension with `before` and `behind` elements around it.
    const auto placed = [&](ir::Value* part, Dim before, Dim behind) {
      Sizes lows(rank, 0), highs(rank, 0);
      lows[dim] = before;
      highs[dim] = behind;
      return a.cast(a.pad(part, lows, highs, 0), dtype);
    };
    const auto given_to_side = [&](Dim start, Dim count, Dim before, Dim behind) {
      ir::Value* part = a.slice(value, dim, start, count);
      if (row.variant == kReflect) return placed(a.flip(part, {dim}), before, behind);
      Sizes one = x->sizes;
      for (size_t j = 0; j < rank; ++j) one[j] = part->type->sizes[j];
      one[dim] = 1;
      return placed(a.reshape(a.reduce(Op::sum, a.cast(part, dtype), {dim}), one), before, behind);
    };
    const bool reflects = row.variant == kReflect;
    ir::Value* sum = placed(value, -low, -high);
    if (low > 0) {
      const Dim before = reflects ? 1 : 0, width = reflects ? low : Dim(1);
      sum = a.op(Op::add, sum, given_to_side(0, low, before, size - before - width));
    }
    if (high > 0) {
      const Dim behind = reflects ? 1 : 0, width = reflects ? high : Dim(1);
      sum = a.op(Op::add, sum, given_to_side(size + low, high, size - behind - width, behind));
    }
    value = sum;
  }
  return call.give(call.copy(call.cast(value, to_dtype(g->dtype)), call.contiguous(g->dtype, x->sizes)));
}

}  // namespace

std::span<const RuleRow> padding_rules() {
  static constexpr RuleRow rows[] = {
      {"reflection_pad1d", mirrored, Op::index, kReflect},
      {"reflection_pad1d_backward", mirrored_backward, Op::pad, kReflect},
      {"reflection_pad2d", mirrored, Op::index, kReflect},
      {"reflection_pad2d_backward", mirrored_backward, Op::pad, kReflect},
      {"reflection_pad3d", mirrored, Op::index, kReflect},
      {"reflection_pad3d_backward", mirrored_backward, Op::pad, kReflect},
      {"replication_pad1d", mirrored, Op::index, kReplicate},
      {"replication_pad1d_backward", mirrored_backward, Op::pad, kReplicate},
      {"replication_pad2d", mirrored, Op::index, kReplicate},
      {"replication_pad2d_backward", mirrored_backward, Op::pad, kReplicate},
      {"replication_pad3d", mirrored, Op::index, kReplicate},
      {"replication_pad3d_backward", mirrored_backward, Op::pad, kReplicate},
  };
  return rows;
}

}  // namespace braze::capture
