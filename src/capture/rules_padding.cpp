// Padding by elements of the tensor itself. Which ones is known now, but where sizes vary: their places are
// constants.
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

/// reflection_padNd(self, padding) and replication_padNd: pairs of (low, high) from the last dimension on.
bool mirrored(Call& call, const RuleRow& row) {
  const auto x = call.operand(0);
  const Sizes pairs = call.ints(1);
  const size_t padded = pairs.size() / 2;
  if (!x || x->is_number() || pairs.size() % 2 || padded == 0 || padded >= x->sizes.size()) return false;
  if (suggested_format(*x) != c10::MemoryFormat::Contiguous) return false;
  const size_t first = x->sizes.size() - padded;
  Sizes sizes = x->sizes;
  Arithmetic a(call);
  c10::SmallVector<ir::Value*, 3> indices;
  for (size_t k = 0; k < padded; ++k) {
    const size_t dim = first + k;
    const Dim size = x->sizes[dim], low = pairs[2 * (padded - 1 - k)], high = pairs[2 * (padded - 1 - k) + 1];
    sizes[dim] = size + low + high;
    if (sizes[dim] < 1 || size < 1 || (row.variant == kReflect && (low >= size || high >= size))) return false;
    if (!size.is_number() || !low.is_number() || !high.is_number()) {
      indices.push_back(a.along(computed_places(call, size, low, high, row.variant), k, padded));
      continue;
    }
    std::vector<int64_t> places;
    const int64_t count = size, before = low;
    for (int64_t i = 0; i < sizes[dim]; ++i) {
      int64_t place = i - before;
      if (row.variant == kReplicate) place = std::clamp<int64_t>(place, 0, count - 1);
      if (place < 0) place = -place;
      if (place >= count) place = 2 * (count - 1) - place;
      places.push_back(place);
    }
    indices.push_back(a.along(a.constant(places), k, padded));
  }
  ir::Value* value = a.index(x->value, static_cast<int64_t>(first), {indices.data(), indices.size()});
  return call.give(call.copy(value, call.contiguous(x->dtype, sizes)));
}

}  // namespace

std::span<const RuleRow> padding_rules() {
  static constexpr RuleRow rows[] = {
      {"reflection_pad1d", mirrored, Op::index, kReflect},
      {"reflection_pad2d", mirrored, Op::index, kReflect},
      {"reflection_pad3d", mirrored, Op::index, kReflect},
      {"replication_pad1d", mirrored, Op::index, kReplicate},
      {"replication_pad2d", mirrored, Op::index, kReplicate},
      {"replication_pad3d", mirrored, Op::index, kReplicate},
  };
  return rows;
}

}  // namespace braze::capture
