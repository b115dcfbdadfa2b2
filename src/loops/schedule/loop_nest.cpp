#include "loops/schedule/loop_nest.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace braze::loops {

namespace {

/// Leaves in the order of the heaviest access: largest stride outermost. Stores decide before loads, because a
/// strided store costs more than a strided load.
std::vector<size_t> natural_order(const Leaves& leaves, const std::vector<AccessPattern>& accesses, bool reduced,
                                  const SizeRules& rules) {
  std::vector<size_t> order;
  for (size_t k = 0; k < leaves.axes.size(); ++k)
    if (leaves.reduced[k] == reduced) order.push_back(k);
  std::vector<const AccessPattern*> ranked;
  for (const AccessPattern& access : accesses) ranked.push_back(&access);
  std::stable_sort(ranked.begin(), ranked.end(), [](const AccessPattern* a, const AccessPattern* b) {
    return a->weight * (a->is_store ? 2 : 1) > b->weight * (b->is_store ? 2 : 1);
  });
  // Insertion sort: two axes are ordered by the first access that moves along both by different amounts.
  auto before = [&](size_t a, size_t b) {
    for (const AccessPattern* access : ranked) {
      const int64_t x = std::abs(rules.hint(access->strides[a])), y = std::abs(rules.hint(access->strides[b]));
      if (x != 0 && y != 0 && x != y) return x > y;
    }
    return a < b;
  };
  for (size_t k = 1; k < order.size(); ++k)
    for (size_t j = k; j > 0 && before(order[j], order[j - 1]); --j) std::swap(order[j], order[j - 1]);
  return order;
}

/// Neighbours that every access walks through as if they were one axis.
bool collapsible(size_t outer, size_t inner, const Leaves& leaves, const std::vector<AccessPattern>& accesses,
                 const SizeRules& rules) {
  if (leaves.individual[outer] || leaves.individual[inner]) return false;
  return std::all_of(accesses.begin(), accesses.end(), [&](const AccessPattern& access) {
    return rules.equal(access.strides[outer], access.strides[inner] * leaves.sizes[inner]);
  });
}

std::vector<LoopAxis> collapse(const std::vector<size_t>& order, const Leaves& leaves,
                               const std::vector<AccessPattern>& accesses, const SizeRules& rules) {
  std::vector<LoopAxis> axes;
  for (size_t leaf : order) {
    if (!axes.empty() && collapsible(axes.back().innermost(), leaf, leaves, accesses, rules)) {
      axes.back().leaves.push_back(leaf);
      axes.back().size = axes.back().size * leaves.sizes[leaf];
    } else {
      axes.push_back({{leaf}, leaves.sizes[leaf]});
    }
  }
  return axes;
}

/// How much traffic runs contiguously along an axis.
int64_t lane_value(const LoopAxis& axis, const std::vector<AccessPattern>& accesses, int64_t short_axis,
                   const SizeRules& rules) {
  int64_t value = 0;
  for (const AccessPattern& access : accesses) {
    const Size stride = access.strides[axis.innermost()];
    if (stride == 1)
      value += access.weight * (access.is_store ? 2 : 1);
    else if (stride == 0)
      value += access.weight / 8;
  }
  const int64_t size = rules.hint(axis.size);
  return size < short_axis ? value / (short_axis / std::max<int64_t>(1, size)) : value;
}

Size product(const std::vector<LoopAxis>& axes) {
  return std::accumulate(axes.begin(), axes.end(), Size(1),
                         [](Size value, const LoopAxis& axis) { return value * axis.size; });
}

}  // namespace

size_t Leaves::index_of(AxisId axis) const {
  const auto it = std::find(axes.begin(), axes.end(), axis);
  BRAZE_CHECK(it != axes.end(), "an axis outside of the kernel");
  return static_cast<size_t>(it - axes.begin());
}

Size LoopNest::outer_size() const {
  return product(outer);
}
Size LoopNest::reduced_size() const {
  return product(reduced);
}

LoopNest make_nest(const Leaves& leaves, const std::vector<AccessPattern>& accesses, int64_t short_axis,
                   const SizeRules& rules) {
  LoopNest nest;
  nest.outer = collapse(natural_order(leaves, accesses, false, rules), leaves, accesses, rules);
  nest.reduced = collapse(natural_order(leaves, accesses, true, rules), leaves, accesses, rules);
  auto best = [&](const std::vector<LoopAxis>& axes) {
    size_t winner = axes.size();
    int64_t value = -1;
    for (size_t k = axes.size(); k-- > 0;) {  // the innermost wins ties
      const int64_t here = lane_value(axes[k], accesses, short_axis, rules);
      if (here > value) {
        value = here;
        winner = k;
      }
    }
    return std::pair(winner, value);
  };
  const auto [outer, outer_value] = best(nest.outer);
  const auto [reduced, reduced_value] = best(nest.reduced);
  // Windows of a pooling: strided loads cost less than lanes without work and a sum over them at every result.
  const bool short_rows = !nest.reduced.empty() && !nest.outer.empty() &&
                          rules.hint(nest.reduced[reduced].size) < short_axis &&
                          rules.hint(nest.outer[outer].size) >= short_axis;
  if (!nest.reduced.empty() && !short_rows && (nest.outer.empty() || reduced_value >= outer_value)) {
    nest.form = LoopNest::Form::rows;
    std::rotate(nest.reduced.begin() + static_cast<int64_t>(reduced),
                nest.reduced.begin() + static_cast<int64_t>(reduced) + 1, nest.reduced.end());
    return nest;
  }
  nest.form = nest.reduced.empty() ? LoopNest::Form::points : LoopNest::Form::columns;
  if (nest.outer.empty()) return nest;  // a single element
  nest.lane = nest.outer[outer];
  nest.has_lane = true;
  nest.outer.erase(nest.outer.begin() + static_cast<int64_t>(outer));
  return nest;
}

}  // namespace braze::loops
