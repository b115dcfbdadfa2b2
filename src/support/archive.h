// support/archive.h: plain values as bytes, and back, from one list of fields for both directions:
//
//   template <typename Archive>
//   void transfer(Archive& archive, View& view) {
//     archive(view.buffer, view.sizes);
//   }
//
// Bytes are those of this kind of machine. The reader checks every length before use: what is cut short or damaged
// turns `ok()` false and reads as zeros and empty lists, however large the lengths that it claims.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace braze {

namespace detail {
template <typename T>
concept Plain = std::is_arithmetic_v<T>;
}  // namespace detail

class ArchiveWriter {
 public:
  static constexpr bool reads = false;

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (one(fields), ...);
  }
  /// An enumerator; the reader accepts those below `count`.
  template <typename Enum>
  void enumerator(Enum& value, size_t /*count*/) {
    bytes(&value, sizeof value);
  }
  /// A list of the same kind of value within itself.
  template <typename T>
  void nested(std::vector<T>& list) {
    one(list);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <typename T>
  void one(T& value) {
    if constexpr (detail::Plain<T>)
      bytes(&value, sizeof value);
    else
      transfer(*this, value);
  }
  void one(std::string& text) {
    length(text.size());
    bytes(text.data(), text.size());
  }
  template <typename T>
  void one(std::vector<T>& list) {
    length(list.size());
    for (T& element : list) one(element);
  }
  void length(uint64_t value) { bytes(&value, sizeof value); }
  void bytes(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }

  std::string bytes_;
};

class ArchiveReader {
 public:
  static constexpr bool reads = true;
  explicit ArchiveReader(std::string_view bytes) : left_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (one(fields), ...);
  }
  template <typename Enum>
  void enumerator(Enum& value, size_t count) {
    std::underlying_type_t<Enum> number{};
    bytes(&number, sizeof number);
    if (static_cast<uint64_t>(number) >= count) return fail();
    value = static_cast<Enum>(number);
  }
  template <typename T>
  void nested(std::vector<T>& list) {
    constexpr int deepest = 16;  // The stack is not endless.
    if (++depth_ > deepest) fail();
    one(list);
    --depth_;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return left_.empty(); }
  /// What has been read makes no sense.
  void fail() {
    ok_ = false;
    left_ = {};
  }

 private:
  template <typename T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      bytes(&byte, 1);
      if (byte > 1) return fail();
      value = byte != 0;
    } else if constexpr (detail::Plain<T>) {
      bytes(&value, sizeof value);
    } else {
      transfer(*this, value);
    }
  }
  void one(std::string& text) {
    const uint64_t size = length();
    text.assign(left_.substr(0, size));
    left_.remove_prefix(size);
  }
  template <typename T>
  void one(std::vector<T>& list) {
    const uint64_t size = length();
    list.clear();
    // Not resized at once: an element takes more memory than the byte that it must have at least.
    for (uint64_t k = 0; k < size && ok_; ++k) one(list.emplace_back());
  }
  /// Every element takes a byte at least.
  uint64_t length() {
    uint64_t value = 0;
    bytes(&value, sizeof value);
    if (value > left_.size()) fail();
    return ok_ ? value : 0;
  }
  void bytes(void* into, size_t size) {
    if (left_.size() < size) fail();
    if (!ok_) return;
    std::memcpy(into, left_.data(), size);
    left_.remove_prefix(size);
  }

  std::string_view left_;
  bool ok_ = true;
  int depth_ = 0;
};

}  // namespace braze
