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
    return bits & sign ? ~bits : bits | sign;
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

  /// Takes the row: `value(i)` for i below `count`. At most 2^32 - 1 elements.
  template <typename Value>
  void load(int64_t count, bool descending, Value&& value) {
    items_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const Key key = sort_key(value(i));
      items_[static_cast<size_t>(i)] = Item(descending ? static_cast<Key>(~key) : key, static_cast<uint32_t>(i));
    }
  }

  /// `stable`: equal elements stay in order; otherwise they come out as std::sort leaves them.
  void sort(bool stable) {
    if (!stable) original_ = items_;
    sort_words();
    if (stable || !has_equals(items_.size())) return;
    items_ = original_;
    std::sort(items_.begin(), items_.end(), by_key);
  }

  /// The first `count` in order, as std::nth_element and std::sort leave them.
  void select(int64_t count) {
    original_ = items_;
    sort_words();
    if (!has_equals(std::min(items_.size(), static_cast<size_t>(count) + 1))) return;
    items_ = original_;
    std::nth_element(items_.begin(), items_.begin() + count - 1, items_.end(), by_key);
    std::sort(items_.begin(), items_.begin() + count - 1, by_key);
  }

  /// Equal elements meet among the first `count`, so that their order is another question; sorts the row.
  bool meets_equals(int64_t count) {
    sort_words();
    return has_equals(std::min(items_.size(), static_cast<size_t>(count) + 1));
  }

  const Item& operator[](int64_t i) const { return items_[static_cast<size_t>(i)]; }

 private:
  static bool by_key(const Item& a, const Item& b) { return a.key() < b.key(); }

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

  std::vector<Item> items_, other_, original_;
};

}  // namespace braze::runtime
