// support/hash.h: 128-bit structural hashes (XXH3), the keys of every cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace braze {

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
};

/// Hashes `size` bytes.
Hash128 hash_bytes(const void* data, size_t size);

/// Collects plain values in order and hashes them together. The same sequence of calls gives the same hash on
/// every machine of the same byte order.
class Hasher {
 public:
  template <typename T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  Hasher& add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Hasher& add(std::string_view text) {
    add(text.size());
    bytes_.append(text);
    return *this;
  }
  Hasher& add(const Hash128& hash) { return add(hash.low).add(hash.high); }
  template <typename T>
    requires std::is_arithmetic_v<T>
  Hasher& add(std::span<const T> values) {
    add(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return *this;
  }
  Hash128 finish() const { return hash_bytes(bytes_.data(), bytes_.size()); }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

}  // namespace braze

template <>
struct std::hash<braze::Hash128> {
  size_t operator()(const braze::Hash128& h) const noexcept { return h.low; }
};
