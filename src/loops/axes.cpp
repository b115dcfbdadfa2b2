#include "loops/axes.h"

#include <algorithm>

#include "ir/size_table.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// whole / part where `part` is one product and in every term of `whole`: what is left, times `part`, is `whole`
/// for all values, 0 too.
std::optional<Size> divided(Size whole, Size part) {
  ir::SizeTable& table = *(whole.is_constant() ? part : whole).expr()->table;
  const std::vector<ir::SizeTerm> by = table.terms(part);
  if (by.size() != 1) return std::nullopt;
  std::vector<ir::SizeTerm> terms = table.terms(whole);
  for (ir::SizeTerm& term : terms) {
    term.product = table.divide(term.product, by[0].product);
    if (!term.product || term.coefficient % by[0].coefficient != 0) return std::nullopt;
    term.coefficient /= by[0].coefficient;
  }
  return table.sum(std::move(terms));
}

}  // namespace

AxisId AxisSpace::fresh(Size size) {
  axes_.push_back({size, {}});
  return static_cast<AxisId>(axes_.size() - 1);
}

Label AxisSpace::fresh_label(std::span<const Size> sizes) {
  Label label(sizes.size());
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != 1) label[k].push_back(fresh(sizes[k]));
  return label;
}

void AxisSpace::replace(AxisId leaf, std::vector<AxisId> parts) {
  axes_[leaf].parts = std::move(parts);
  changed_.push_back(leaf);
}

void AxisSpace::roll_back(const Mark& mark) {
  for (; changed_.size() > mark.changes; changed_.pop_back()) axes_[changed_.back()].parts.clear();
  axes_.resize(mark.axes);
}

void AxisSpace::collect(AxisId axis, AxisList& out) const {
  const Axis& entry = axes_[axis];
  if (entry.parts.empty()) {
    out.push_back(axis);
    return;
  }
  for (AxisId part : entry.parts) collect(part, out);
}

AxisList AxisSpace::leaves(const AxisList& list) const {
  AxisList out;
  out.reserve(list.size());
  for (AxisId axis : list) collect(axis, out);
  return out;
}

Label AxisSpace::leaves(const Label& label) const {
  Label out;
  out.reserve(label.size());
  for (const AxisList& list : label) out.push_back(leaves(list));
  return out;
}

AxisList AxisSpace::axes_of(const Label& label) const {
  AxisList out;
  out.reserve(label.size());
  for (const AxisList& list : label)
    for (AxisId axis : list) collect(axis, out);
  std::sort(out.begin(), out.end());
  return out;
}

/// What `part` has to be multiplied by to give `whole`, where that is known for all values.
std::optional<Size> AxisSpace::quotient(Size whole, Size part) const {
  if (whole.is_constant() && part.is_constant()) {
    const int64_t a = whole.constant(), b = part.constant();
    if (a == 0 || b == 0 || a % b != 0) return std::nullopt;
    return a / b;
  }
  if (whole.is_constant() || part == 0) return std::nullopt;
  if (auto result = divided(whole, part)) return result;
  if (!rules_.at_least(part, 1)) return std::nullopt;
  const Size result = floor_div(whole, part);
  return result * part == whole ? std::optional(result) : std::nullopt;
}

bool AxisSpace::unify(const AxisList& a_list, const AxisList& b_list) {
  AxisList a = leaves(a_list), b = leaves(b_list);
  while (!a.empty() && !b.empty()) {  // from the innermost axis outwards
    const AxisId x = a.back(), y = b.back();
    a.pop_back();
    b.pop_back();
    if (x == y) continue;
    const Size sx = size(x), sy = size(y);
    if (rules_.equal(sx, sy)) {
      replace(std::max(x, y), {std::min(x, y)});
      // `x` may appear again further out in either list (an illegal label): the caller's check finds that.
      a = leaves(a);
      b = leaves(b);
      continue;
    }
    std::optional<Size> rest = quotient(sx, sy);
    const AxisId larger = rest ? x : y, smaller = rest ? y : x;
    if (!rest) rest = quotient(sy, sx);
    if (!rest) return false;
    const AxisId outer = fresh(*rest);
    replace(larger, {outer, smaller});
    a = leaves(a);
    b = leaves(b);
    (larger == x ? a : b).push_back(outer);
  }
  return a.empty() && b.empty();
}

bool AxisSpace::unify_broadcast(const Label& a, const Label& b) {
  const size_t rank = std::min(a.size(), b.size());
  for (size_t k = 1; k <= rank; ++k) {
    const AxisList &x = a[a.size() - k], &y = b[b.size() - k];
    if (!x.empty() && !y.empty() && !unify(x, y)) return false;
  }
  return true;
}

bool AxisSpace::regroup(const AxisList& flat, std::span<const Size> sizes, Label& result) {
  AxisList rest = leaves(flat);
  result.assign(sizes.size(), {});
  for (size_t k = sizes.size(); k-- > 0;) {
    Size wanted = sizes[k];
    AxisList reversed;
    while (wanted != 1) {
      if (rest.empty()) return false;
      AxisId axis = rest.back();
      rest.pop_back();
      const Size have = size(axis);
      if (rules_.equal(wanted, have)) {
        if (have == 0) return false;
        reversed.push_back(axis);
        break;
      }
      if (const auto more = quotient(wanted, have)) {
        reversed.push_back(axis);
        wanted = *more;
        continue;
      }
      const auto left = quotient(have, wanted);
      if (!left) return false;
      const AxisId outer = fresh(*left), inner = fresh(wanted);
      replace(axis, {outer, inner});
      reversed.push_back(inner);
      rest.push_back(outer);
      wanted = 1;
    }
    result[k].assign(reversed.rbegin(), reversed.rend());
  }
  return rest.empty();
}

bool AxisSpace::through_view(const ir::Node* view, const Label& operand, Label& result) {
  const auto sizes = view->results[0].type->sizes.symbolic();
  switch (view->op) {
    case ir::Op::permute:
      result.clear();
      for (int64_t dim : view->ints_attr("dims")) result.push_back(operand[dim]);
      return true;
    case ir::Op::reshape: {
      AxisList flat;
      for (const AxisList& list : operand) flat.insert(flat.end(), list.begin(), list.end());
      return regroup(flat, sizes, result);
    }
    case ir::Op::expand: {
      result.assign(sizes.size(), {});
      const size_t lead = sizes.size() - operand.size();
      for (size_t k = 0; k < sizes.size(); ++k) {
        if (k >= lead && !operand[k - lead].empty())
          result[k] = operand[k - lead];
        else if (sizes[k] != 1)
          result[k].push_back(fresh(sizes[k]));
      }
      return true;
    }
    default: return false;
  }
}

uint32_t AxisSpace::append(const AxisSpace& other) {
  const auto offset = static_cast<uint32_t>(axes_.size());
  for (Axis axis : other.axes_) {
    for (AxisId& part : axis.parts) part += offset;
    axes_.push_back(std::move(axis));
  }
  return offset;
}

Label shifted(const Label& label, uint32_t offset) {
  Label out = label;
  for (AxisList& list : out)
    for (AxisId& axis : list) axis += offset;
  return out;
}

}  // namespace braze::loops
