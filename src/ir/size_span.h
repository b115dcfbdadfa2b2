// ir/size_span.h: the sizes or strides of a type, which may be read in two ways.
//
//   type->sizes[0]            // int64_t; throws InternalError where one of the sizes is an expression
//   type->sizes.symbolic()    // std::span<const Size>, whatever they are
//
// So code that knows nothing of symbols reads numbers as it always did, and never sees a wrong one. PyTorch's
// `sizes()` and `sym_sizes()` share the work in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "ir/size.h"

namespace braze::ir {

class SizeSpan {
 public:
  using value_type = int64_t;
  SizeSpan() = default;
  SizeSpan(std::span<const Size> sizes);  // NOLINT: a view
  /// Numbers above -2^62 (see Size).
  SizeSpan(std::span<const int64_t> numbers);                                      // NOLINT: a view
  SizeSpan(const std::vector<int64_t>& numbers) : SizeSpan(std::span(numbers)) {}  // NOLINT: a view

  std::span<const Size> symbolic() const { return {sizes_, count_}; }
  bool is_constant() const { return is_constant_; }  ///< No element is an expression.
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  // ---- as numbers
  const int64_t* data() const {
    if (!is_constant_) [[unlikely]]
      fail();
    // A constant Size is its number and nothing else.
    return reinterpret_cast<const int64_t*>(sizes_);
  }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + count_; }
  const int64_t& operator[](size_t k) const { return data()[k]; }
  const int64_t& front() const { return data()[0]; }
  const int64_t& back() const { return data()[count_ - 1]; }
  std::span<const int64_t> first(size_t count) const { return std::span(data(), count_).first(count); }
  std::span<const int64_t> last(size_t count) const { return std::span(data(), count_).last(count); }

 private:
  static_assert(sizeof(Size) == sizeof(int64_t) && std::is_standard_layout_v<Size>);
  [[noreturn]] void fail() const;
  const Size* sizes_ = nullptr;
  uint32_t count_ = 0;
  bool is_constant_ = true;
};

/// Numbers as sizes: the same memory. Throws UserError for one that no Size holds.
std::span<const Size> as_sizes(std::span<const int64_t> numbers);
/// "[n,4*n]"
std::string to_text(std::span<const Size> sizes);

}  // namespace braze::ir
