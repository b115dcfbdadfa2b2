// runtime/row_sort.h: one row of numbers put in order, by keys that compare as whole numbers.
//
// std::sort on (value, index) pairs, as ATen does it, takes 60 ns an element for a row of 1,000. Keys of up to 32
// bits are kept in one word with the index, so that a comparison is one instruction, and long rows go through a
// radix sort whose passes are as many as the keys have bytes that differ.
//
// ATen says nothing of the order of equal elements, but it has one. Rows in which equal elements meet are therefore
// given to the same algorithm of the C++ library that ATen uses, on the same comparisons; nothing is won there.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace braze::runtime {

/// A key that orders as ATen orders values: NaNs are alike and greatest, zeros alike.
template <typename T>
auto sort_key(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr Bits sign = Bits{1} << (sizeof(T) * 8 - 1);
    if (std::isnan(value)) return ~Bits{0};
    const Bits bits = std::bit_cast<Bits>(value == 0 ? T{0} : value);
    const Bits is_negative =
        Bits{0} - (bits >> (sizeof(T) * 8 - 1));  // All ones, or none: no branch, signs are random.
    return bits ^ (is_negative | sign);
  } else {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if constexpr (std::is_signed_v<T>)
      return static_cast<Bits>(value) ^ (Bits{1} << (sizeof(Bits) * 8 - 1));
    else
      return static_cast<Bits>(value);
  }
}

/// A key and where it stood. `order` is unique, and equal keys are in the order in which they stood.
template <typename Key>
struct SortItem;
template <>
struct SortItem<uint32_t> {
  uint64_t word;
  SortItem() = default;
  SortItem(uint32_t key, uint32_t index) : word(uint64_t{key} << 32 | index) {}
  uint32_t key() const { return static_cast<uint32_t>(word >> 32); }
  uint32_t index() const { return static_cast<uint32_t>(word); }
  bool operator<(const SortItem& other) const { return word < other.word; }
};
template <>
struct SortItem<uint64_t> {
  uint64_t first;
  uint32_t second;
  SortItem() = default;
  SortItem(uint64_t key, uint32_t index) : first(key), second(index) {}
  uint64_t key() const { return first; }
  uint32_t index() const { return second; }
  bool operator<(const SortItem& other) const {
    return first != other.first ? first < other.first : second < other.second;
  }
};

/// Memory of one thread, for rows of any length.
template <typename Key>
class RowSorter {
 public:
  using Item = SortItem<Key>;

  /// Puts the row in order: `value(i)` for i below `length`, which is at most 2^32 - 1.
  /// `stable`: equal elements stay in order; otherwise they come out as std::sort leaves them.
  template <typename Value>
  void sort(int64_t length, bool descending, bool stable, const Value& value) {
    load(length, descending, value);
    if (!stable) original_ = items_;
    sort_words();
    if (stable || !has_equals(items_.size())) return;
    items_ = original_;
    std::sort(items_.begin(), items_.end(), by_key);
  }

  /// The first `count` in order, as ATen's algorithms leave them (topk_impl_loop).
  template <typename Value>
  void select(int64_t length, int64_t count, bool descending, const Value& value) {
    if (!meets_equals(length, count, descending, value)) return;
    load(length, descending, value);
    const auto first = items_.begin(), last = items_.end();
    if (count * 64 <= length) {
      std::partial_sort(first, first + count, last, by_key);
    } else {
      std::nth_element(first, first + count - 1, last, by_key);
      std::sort(first, first + count - 1, by_key);
    }
  }

  /// Equal elements meet among the first `count` or at their end, so that their order is another question. Puts
  /// these in order.
  template <typename Value>
  bool meets_equals(int64_t length, int64_t count, bool descending, const Value& value) {
    const int64_t wanted = std::min(length, count + 1);
    constexpr int64_t few = 6;  // Of so many elements one: the rest need not be put in order.
    if (wanted * few <= length) {
      keep_first(length, wanted, descending, value);
    } else {
      load(length, descending, value);
      sort_words();
    }
    return has_equals(static_cast<size_t>(wanted));
  }

  const Item& operator[](int64_t i) const { return items_[static_cast<size_t>(i)]; }

 private:
  static bool by_key(const Item& a, const Item& b) { return a.key() < b.key(); }

  template <typename Value>
  static Key key_of(const Value& value, int64_t i, bool descending) {
    const Key key = sort_key(value(i));
    return descending ? static_cast<Key>(~key) : key;
  }

  template <typename Value>
  void load(int64_t length, bool descending, const Value& value) {
    items_.resize(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i)
      items_[static_cast<size_t>(i)] = Item(key_of(value, i, descending), static_cast<uint32_t>(i));
  }

  /// The first `wanted` of the row in order. One pass: what lies behind all that are kept is passed over, a block
  /// at a time, and where too many are kept the last ones are dropped.
  template <typename Value>
  void keep_first(int64_t length, int64_t wanted, bool descending, const Value& value) {
    return descending ? keep_first<true>(length, wanted, value) : keep_first<false>(length, wanted, value);
  }
  template <bool descending, typename Value>
  void keep_first(int64_t length, int64_t wanted, const Value& value) {
    const auto item = [&](int64_t i) { return Item(key_of(value, i, descending), static_cast<uint32_t>(i)); };
    const auto kept = static_cast<size_t>(wanted);
    items_.clear();
    for (int64_t i = 0; i < wanted; ++i) items_.push_back(item(i));
    const auto drop = [&] {
      std::nth_element(items_.begin(), items_.begin() + wanted - 1, items_.end());
      items_.resize(kept);
    };
    const auto collect = [&](Item one) {
      items_.push_back(one);
      if (items_.size() == 2 * kept) drop();
    };
    const auto put_into_place = [&](Item one) {
      auto at = items_.end() - 1;
      for (; at != items_.begin() && one < at[-1]; --at) *at = at[-1];
      *at = one;
    };
    constexpr int64_t few = 128;
    const bool in_order = wanted <= few;
    in_order ? std::sort(items_.begin(), items_.end()) : drop();
    for (int64_t i = wanted; i < length;) {
      const auto bound = value(items_[kept - 1].index());
      const int64_t end = std::min(i + block, length);
      if (end - i == block && !any_before<descending>(value, i, bound)) {
        i = end;
        continue;
      }
      for (; i < end; ++i) {
        if (!may_lie_before<descending>(value(i), bound)) continue;
        if (const Item one = item(i); one < items_[kept - 1]) in_order ? put_into_place(one) : collect(one);
      }
    }
    if (in_order) return;
    drop();
    std::sort(items_.begin(), items_.end());
  }

  /// NaNs, which compare with nothing, may.
  template <bool descending, typename T>
  static bool may_lie_before(T one, T bound) {
    return descending ? !(one <= bound) : !(one >= bound);
  }
  template <bool descending, typename Value, typename T>
  static bool any_before(const Value& value, int64_t begin, T bound) {
    int any = 0;
    for (int64_t i = 0; i < block; ++i) any |= may_lie_before<descending>(value(begin + i), bound);
    return any != 0;
  }

  bool has_equals(size_t count) const {
    for (size_t i = 1; i < count; ++i)
      if (items_[i - 1].key() == items_[i].key()) return true;
    return false;
  }

  void sort_words() {
    constexpr size_t long_row = 64;  // From there on a radix sort is faster.
    if (items_.size() < long_row)
      std::sort(items_.begin(), items_.end());
    else
      radix_sort();
  }

  /// From the lowest byte up; a pass keeps the order of the one before. Bytes that all keys share need none.
  void radix_sort() {
    constexpr int bytes = sizeof(Key);
    std::array<std::array<uint32_t, 256>, bytes> counts{};
    for (const Item& item : items_)
      for (int b = 0; b < bytes; ++b) ++counts[b][item.key() >> (8 * b) & 255];
    other_.resize(items_.size());
    for (int b = 0; b < bytes; ++b) {
      auto& count = counts[b];
      if (count[items_[0].key() >> (8 * b) & 255] == items_.size()) continue;
      uint32_t sum = 0;
      for (uint32_t& one : count) sum += std::exchange(one, sum);
      for (const Item& item : items_) other_[count[item.key() >> (8 * b) & 255]++] = item;
      items_.swap(other_);
    }
  }

  static constexpr int64_t block = 16;  ///< Elements that are compared at once.

  std::vector<Item> items_, other_, original_;
};

}  // namespace braze::runtime
