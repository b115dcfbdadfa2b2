// python/guards/partition.cpp: which of many values are one object, which of many tensors share memory.
//
// Both are the same question about intervals of addresses: [address, address + 1) of an object, [first, last) of a
// storage. Intervals that overlap, directly or through others, make a group; a guard holds while the groups are the
// recorded ones. What has not moved since the last check that held need not be looked at again; a few objects that
// have are compared with all others. Else the intervals are sorted. They are kept in the order of the last check,
// so that sorting costs one pass when few of them moved: 200 parameters and a new input stay below a microsecond.
#include <algorithm>
#include <array>
#include <numeric>

#include "python/guards/kinds.h"
#include "python/guards/torch_values.h"
#include "support/error.h"

namespace braze::guards {

namespace {

MemoryRange range_of_object(PyObject* value) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(value);
  return {address, address + 1, address};
}

constexpr size_t kFew = 4;  // objects that have moved; for more of them, sorting is faster

struct Partition : Payload {
  using Range = MemoryRange (*)(PyObject*) noexcept;
  Range range;
  std::vector<uint32_t> group;      ///< By source: the smallest number of a source in the same group.
  std::vector<uint32_t> members;    ///< By source: how many the group has.
  std::vector<ptrdiff_t> distance;  ///< By source: of its data from the data of source number `group`.
  std::vector<uint32_t> order;      ///< Cache: sources by first address at the last check.
  std::vector<MemoryRange> ranges;  ///< Cache, by source: at the last check.
  bool held = true;                 ///< `ranges` are in these groups.

  Partition(Range range, std::span<PyObject* const> values) : range(range), group(values.size()) {
    order.resize(values.size());
    std::iota(order.begin(), order.end(), 0);
    ranges.resize(values.size());
    members.assign(values.size(), 0);
    distance.assign(values.size(), 0);
    read(values.data());
    sort();
    for (size_t i = 0; i < order.size();) {
      const size_t end = end_of_group(i);
      const uint32_t smallest = *std::min_element(order.begin() + i, order.begin() + end);
      for (; i < end; ++i) group[order[i]] = smallest;
    }
    for (const uint32_t g : group) ++members[g];
    for (size_t i = 0; i < group.size(); ++i) {
      members[i] = members[group[i]];
      distance[i] = ranges[i].data - ranges[group[i]].data;
    }
  }

  bool equals(const Payload& other) const noexcept override {
    const auto& theirs = static_cast<const Partition&>(other);
    return range == theirs.range && group == theirs.group && distance == theirs.distance;
  }

  /// \returns whether any range is another than at the last check.
  bool read(PyObject* const* values) noexcept {
    bool moved = false;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const MemoryRange now = range(values[i]);
      const MemoryRange& then = ranges[i];
      moved |= now.first != then.first || now.last != then.last || now.data != then.data;
      ranges[i] = now;
    }
    return moved;
  }

  /// Insertion sort: linear on what is nearly in order.
  void sort() noexcept {
    for (size_t i = 1; i < order.size(); ++i) {
      const uint32_t moving = order[i];
      size_t at = i;
      for (; at > 0 && ranges[order[at - 1]].first > ranges[moving].first; --at) order[at] = order[at - 1];
      order[at] = moving;
    }
  }

  /// Where the run of overlapping intervals that starts at place `begin` of the order ends. Empty ones overlap
  /// none.
  size_t end_of_group(size_t begin) const noexcept {
    uintptr_t last = ranges[order[begin]].last;
    size_t end = begin + 1;
    for (; end < order.size() && ranges[order[end]].first < last; ++end)
      last = std::max(last, ranges[order[end]].last);
    return end;
  }

  /// Of objects, whose address is all that counts.
  bool objects_hold(PyObject* const* values) noexcept {
    std::array<uint32_t, kFew> moved;
    size_t count = 0;
    for (uint32_t i = 0; held && i < group.size(); ++i) {
      if (reinterpret_cast<uintptr_t>(values[i]) == ranges[i].first) continue;
      if (count == kFew) {
        held = false;
        break;
      }
      moved[count++] = i;
    }
    if (!held) {
      read(values);
      return held = sorted_hold();
    }
    for (size_t k = 0; k < count; ++k)
      for (uint32_t i = 0; i < group.size(); ++i)
        held &= (values[i] == values[moved[k]]) == (group[i] == group[moved[k]]);
    for (size_t k = 0; k < count; ++k) ranges[moved[k]] = range(values[moved[k]]);
    return held;
  }

  bool storages_hold(PyObject* const* values) noexcept {
    const bool moved = read(values);
    return held = (held && !moved) || sorted_hold();
  }

  /// Whether the groups of `ranges` are the recorded ones.
  bool sorted_hold() noexcept {
    sort();
    for (size_t i = 0; i < order.size();) {
      const size_t begin = i, end = end_of_group(begin);
      const uint32_t expected = group[order[begin]];
      if (end - begin != members[expected]) return false;
      for (; i < end; ++i) {
        const uint32_t source = order[i];
        if (group[source] != expected) return false;
        if (static_cast<ptrdiff_t>(ranges[source].data - ranges[expected].data) != distance[source]) return false;
      }
    }
    return true;
  }

  /// The first pair that is together here and not there, or at another distance; a < b.
  bool first_difference(const Partition& now, uint32_t& a, uint32_t& b) const {
    for (b = 1; b < group.size(); ++b)
      for (a = 0; a < b; ++a) {
        const bool together = group[a] == group[b];
        if (together != (now.group[a] == now.group[b])) return true;
        if (together && distance[b] - distance[a] != now.distance[b] - now.distance[a]) return true;
      }
    return false;
  }
};

Partition* partition_of(const Expected& expected) noexcept {
  return static_cast<Partition*>(expected.payload);
}

struct Words {
  const char *together, *apart, *subject;
};

std::string explain(const Expected& expected, PyObject* const* values, const Texts& texts, const Words& words) {
  const Partition& then = *partition_of(expected);
  if (!values) {
    const size_t groups = [&] {
      size_t count = 0;
      for (size_t i = 0; i < then.group.size(); ++i) count += then.group[i] == i;
      return count;
    }();
    return concat(texts.size(), " ", words.subject, " from ", texts.front(), " to ", texts.back(), " in ", groups,
                  " groups");
  }
  const Partition now(then.range, {values, then.group.size()});
  uint32_t a, b;
  if (!then.first_difference(now, a, b)) return concat(words.subject, " as they were");
  const bool together = then.group[a] == then.group[b], together_now = now.group[a] == now.group[b];
  if (together && together_now)
    return concat(texts[a], " and ", texts[b], " begin ", then.distance[b] - then.distance[a], " bytes apart, was ",
                  now.distance[b] - now.distance[a]);
  return concat(texts[a], " and ", texts[b], " ", together ? words.together : words.apart, ", was otherwise");
}

}  // namespace

std::shared_ptr<Payload> make_objects_payload(std::span<PyObject* const> values) {
  return std::make_shared<Partition>(range_of_object, values);
}
bool test_objects(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return partition_of(expected)->objects_hold(values);
}
std::string explain_objects(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  return explain(expected, values, texts, {"are one object", "are two objects", "objects"});
}

std::shared_ptr<Payload> make_storages_payload(std::span<PyObject* const> tensors) {
  return std::make_shared<Partition>(memory_of, tensors);
}
bool test_storages(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  return partition_of(expected)->storages_hold(values);
}
std::string explain_storages(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  return explain(expected, values, texts, {"share memory", "share no memory", "memories"});
}

}  // namespace braze::guards
