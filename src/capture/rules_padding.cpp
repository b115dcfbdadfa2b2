// Padding by elements of the tensor itself. Which ones is known now, but where sizes vary: their places are
// constants. A gradient is what the middle was given, and what was given to the elements that pads have repeated.
#include <algorithm>

#include "capture/arithmetic.h"
#include "capture/index_map.h"

namespace braze::capture {
namespace {

/// A row's variant is the mode, and how many dimensions its operator pads.
enum Mode { kReflect, kReplicate, kModes };
constexpr int padding(int dims, Mode mode) {
  return dims * kModes + mode;
}
Mode mode_of(const RuleRow& row) {
  return static_cast<Mode>(row.variant % kModes);
}

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

  /// They are numbers, and so are the sizes of what they pad.
  bool are_known(DimsRef sizes) const {
    const auto is_known = [](const auto& side) { return side.first.is_number() && side.second.is_number(); };
    return std::ranges::all_of(sides, is_known) && sizes.slice(first).is_numbers();
  }
};

/// Nothing where eager refuses their number, or that of the dimensions, which may have those of channels and a
/// batch besides.
std::optional<Pads> pads_of(Call& call, const RuleRow& row, size_t argument, size_t rank) {
  const Sizes pairs = call.ints(argument);
  const auto padded = static_cast<size_t>(row.variant / kModes);
  if (pairs.size() != 2 * padded || (rank != padded + 1 && rank != padded + 2)) return std::nullopt;
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

/// `part` stands in dimension `dim`, with zeros before and behind it; negative numbers cut it off.
ir::Value* placed(Arithmetic& a, ir::Value* part, int64_t dim, Dim before, Dim behind) {
  const size_t rank = part->type->sizes.size();
  Sizes lows(rank, 0), highs(rank, 0);
  lows[dim] = before;
  highs[dim] = behind;
  return a.pad(part, lows, highs, 0);
}

/// What stands before or behind the elements of dimension `dim`: `count` of them.
ir::Value* side(Arithmetic& a, ir::Value* value, int64_t dim, Dim count, bool is_before, int mode) {
  const DimsRef known = value->type->sizes;
  const Dim size = known[dim];
  if (mode == kReflect) return a.flip(a.slice(value, dim, is_before ? Dim(1) : size - 1 - count, count), {dim});
  Sizes sizes(known.begin(), known.end());
  sizes[dim] = count;
  return a.expand(a.slice(value, dim, is_before ? Dim(0) : size - 1, 1), sizes);
}

/// The tensor padded by parts, none of which is gathered: rows are put together from what lies in them and on both
/// sides, and then laid one behind the other.
class Padding {
 public:
  Padding(Call& call, const Pads& pads, int mode) : call_(call), a_(call), pads_(pads), mode_(mode) {}

  ir::Value* run(ir::Value* value, size_t k = 0) {
    if (k + 1 == pads_.sides.size()) return rows(value);
    const auto [low, high] = pads_.sides[k];
    const auto dim = static_cast<int64_t>(pads_.first + k);
    c10::SmallVector<ir::Value*, 3> parts;
    if (low > 0) parts.push_back(run(side(a_, value, dim, low, true, mode_), k + 1));
    parts.push_back(run(value, k + 1));
    if (high > 0) parts.push_back(run(side(a_, value, dim, high, false, mode_), k + 1));
    if (parts.size() == 1) return parts[0];
    const DimsRef known = parts[0]->type->sizes;
    Sizes sizes(known.begin(), known.end());
    sizes[dim] = value->type->sizes[dim];
    sizes[dim] += low + high;
    const ir::Attr attr[] = {{"dim", dim}};
    const ir::Type* type = call_.contiguous(to_scalar_type(value->type->dtype), sizes);
    return call_.graph().create(Op::cat, {parts.data(), parts.size()}, attr, {&type, 1})->result();
  }

 private:
  ir::Value* rows(ir::Value* value) {
    const auto [low, high] = pads_.sides.back();
    const auto dim = static_cast<int64_t>(value->type->sizes.size()) - 1;
    const Dim size = value->type->sizes[dim];
    const auto number = [&](Dim one) { return number_of(call_.graph(), one, to_device(call_.device())); };
    ir::Value* result = placed(a_, value, dim, low, high);
    ir::Value* column = a_.count(size + low + high);
    if (low > 0) {
      ir::Value* before = placed(a_, side(a_, value, dim, low, true, mode_), dim, 0, size + high);
      result = a_.where(a_.op(Op::lt, column, number(low)), before, result);
    }
    if (high > 0) {
      ir::Value* behind = placed(a_, side(a_, value, dim, high, false, mode_), dim, low + size, 0);
      result = a_.where(a_.op(Op::ge, column, number(low + size)), behind, result);
    }
    return result;
  }

  Call& call_;
  Arithmetic a_;
  const Pads& pads_;
  int mode_;
};

/// reflection_padNd(self, padding) and replication_padNd
bool mirrored(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  if (!x || x->is_number() || suggested_format(*x) != c10::MemoryFormat::Contiguous) return false;
  const auto pads = pads_of(call, row, 1, x->sizes.size());
  if (!pads || is_empty(x->sizes)) return false;  // Eager alone knows which empty ones it takes.
  Sizes sizes = x->sizes;
  for (size_t k = 0; k < pads->sides.size(); ++k) {
    const auto [low, high] = pads->sides[k];
    Dim& size = sizes[pads->first + k];
    if (size < 1 || size + low + high < 1) return false;
    if (mode_of(row) == kReflect && (low >= size || high >= size)) return false;
    size += low + high;
  }
  const ir::Type* type = call.contiguous(x->dtype, sizes);
  const auto grows = [](const auto& sides) { return sides.first >= 0 && sides.second >= 0; };
  if (call.device().is_cpu() && pads->are_known(x->sizes) && std::ranges::all_of(pads->sides, grows))
    return call.give(call.copy(Padding(call, *pads, mode_of(row)).run(x->value), type));
  Arithmetic a(call);
  const size_t padded = pads->sides.size();
  c10::SmallVector<ir::Value*, 3> indices;
  for (size_t k = 0; k < padded; ++k) {
    const auto [low, high] = pads->sides[k];
    indices.push_back(a.along(padded_places(call, x->sizes[pads->first + k], low, high, mode_of(row)), k, padded));
  }
  ir::Value* value = a.index(x->value, static_cast<int64_t>(pads->first), {indices.data(), indices.size()});
  return call.give(call.copy(value, type));
}

/// reflection_padNd_backward(grad, self, padding) and replication_padNd_backward: one dimension after the other.
bool mirrored_backward(Call& call, const RuleRow& row) {
  const auto g = call.operand(0), x = call.operand(1);
  if (!g || !x || g->is_number() || x->is_number() || !c10::isFloatingType(g->dtype) || g->dtype != x->dtype)
    return false;
  if (suggested_format(*x) != c10::MemoryFormat::Contiguous || g->sizes.size() != x->sizes.size()) return false;
  const auto pads = pads_of(call, row, 2, x->sizes.size());
  if (!pads || !pads->are_known(x->sizes) || is_empty(g->sizes) || is_empty(x->sizes)) return false;
  Arithmetic a(call);
  const DType dtype = computing_dtype(g->dtype);
  ir::Value* value = g->value;
  for (size_t k = 0; k < pads->sides.size(); ++k) {
    const auto dim = static_cast<int64_t>(pads->first + k);
    const auto [low, high] = pads->sides[k];
    const Dim size = x->sizes[dim];
    if (low == 0 && high == 0) continue;
    const size_t rank = x->sizes.size();
    const auto wide = [&](ir::Value* part, Dim before, Dim behind) {
      return a.cast(placed(a, part, dim, before, behind), dtype);
    };
    const auto given_to_side = [&](Dim start, Dim count, Dim before, Dim behind) {
      ir::Value* part = a.slice(value, dim, start, count);
      if (mode_of(row) == kReflect) return wide(a.flip(part, {dim}), before, behind);
      Sizes one = x->sizes;
      for (size_t j = 0; j < rank; ++j) one[j] = part->type->sizes[j];
      one[dim] = 1;
      return wide(a.reshape(a.reduce(Op::sum, a.cast(part, dtype), {dim}), one), before, behind);
    };
    const bool reflects = mode_of(row) == kReflect;
    ir::Value* sum = wide(value, -low, -high);
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
      {"reflection_pad1d", mirrored, Op::index, padding(1, kReflect)},
      {"reflection_pad1d_backward", mirrored_backward, Op::pad, padding(1, kReflect)},
      {"reflection_pad2d", mirrored, Op::index, padding(2, kReflect)},
      {"reflection_pad2d_backward", mirrored_backward, Op::pad, padding(2, kReflect)},
      {"reflection_pad3d", mirrored, Op::index, padding(3, kReflect)},
      {"reflection_pad3d_backward", mirrored_backward, Op::pad, padding(3, kReflect)},
      {"replication_pad1d", mirrored, Op::index, padding(1, kReplicate)},
      {"replication_pad1d_backward", mirrored_backward, Op::pad, padding(1, kReplicate)},
      {"replication_pad2d", mirrored, Op::index, padding(2, kReplicate)},
      {"replication_pad2d_backward", mirrored_backward, Op::pad, padding(2, kReplicate)},
      {"replication_pad3d", mirrored, Op::index, padding(3, kReplicate)},
      {"replication_pad3d_backward", mirrored_backward, Op::pad, padding(3, kReplicate)},
  };
  return rows;
}

}  // namespace braze::capture
