#include "loops/axes.h"

#include <algorithm>

#include "support/error.h"

namespace braze::loops {

AxisId AxisSpace::fresh(int64_t size) {
  axes_.push_back({size, {}});
  return static_cast<AxisId>(axes_.size() - 1);
}

Label AxisSpace::fresh_label(std::span<const int64_t> sizes) {
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
  for (const AxisList& list : label)
    for (AxisId axis : list) collect(axis, out);
  std::sort(out.begin(), out.end());
  return out;
}

bool AxisSpace::unify(const AxisList& a_list, const AxisList& b_list) {
  AxisList a = leaves(a_list), b = leaves(b_list);
  while (!a.empty() && !b.empty()) {  // from the innermost axis outwards
    const AxisId x = a.back(), y = b.back();
    a.pop_back();
    b.pop_back();
    if (x == y) continue;
    const int64_t sx = size(x), sy = size(y);
    if (sx == sy) {
      replace(std::max(x, y), {std::min(x, y)});
      // `x` may appear again further out in either list (an illegal label): the caller's check finds that.
      a = leaves(a);
      b = leaves(b);
      continue;
    }
    if (sx == 0 || sy == 0) return false;
    const AxisId larger = sx > sy ? x : y, smaller = sx > sy ? y : x;
    if (size(larger) % size(smaller) != 0) return false;
    const AxisId outer = fresh(size(larger) / size(smaller));
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

bool AxisSpace::regroup(const AxisList& flat, std::span<const int64_t> sizes, Label& result) {
  AxisList rest = leaves(flat);
  result.assign(sizes.size(), {});
  for (size_t k = sizes.size(); k-- > 0;) {
    int64_t wanted = sizes[k];
    AxisList reversed;
    while (wanted != 1) {
      if (rest.empty()) return false;
      AxisId axis = rest.back();
      rest.pop_back();
      const int64_t have = size(axis);
      if (have == 0 || wanted == 0) return false;
      if (wanted % have == 0) {
        reversed.push_back(axis);
        wanted /= have;
        continue;
      }
      if (have % wanted != 0) return false;
      const AxisId outer = fresh(have / wanted), inner = fresh(wanted);
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
  const ir::Type& type = *view->results[0].type;
  switch (view->op) {
    case ir::Op::permute:
      result.clear();
      for (int64_t dim : view->ints_attr("dims")) result.push_back(operand[dim]);
      return true;
    case ir::Op::reshape: {
      AxisList flat;
      for (const AxisList& list : operand) flat.insert(flat.end(), list.begin(), list.end());
      return regroup(flat, type.sizes, result);
    }
    case ir::Op::expand: {
      result.assign(type.sizes.size(), {});
      const size_t lead = type.sizes.size() - operand.size();
      for (size_t k = 0; k < type.sizes.size(); ++k) {
        if (k >= lead && !operand[k - lead].empty())
          result[k] = operand[k - lead];
        else if (type.sizes[k] != 1)
          result[k].push_back(fresh(type.sizes[k]));
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
