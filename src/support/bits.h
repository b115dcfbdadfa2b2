// support/bits.h: a set of small numbers, as bits.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace braze {

/// Sets that meet each other are of one size.
class Bits {
 public:
  Bits() = default;
  explicit Bits(size_t size) : words_((size + 63) / 64) {}

  void set(size_t k) { words_[k / 64] |= uint64_t{1} << k % 64; }
  bool operator[](size_t k) const { return (words_[k / 64] >> k % 64 & 1) != 0; }
  Bits& operator|=(const Bits& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    return *this;
  }
  bool meets(const Bits& other) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if ((words_[w] & other.words_[w]) != 0) return true;
    return false;
  }
  /// All of the other.
  bool contains(const Bits& other) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if ((other.words_[w] & ~words_[w]) != 0) return false;
    return true;
  }
  bool any() const {
    for (const uint64_t word : words_)
      if (word != 0) return true;
    return false;
  }
  auto operator<=>(const Bits&) const = default;

 private:
  std::vector<uint64_t> words_;
};

}  // namespace braze
