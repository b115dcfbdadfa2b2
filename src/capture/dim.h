// capture/dim.h: a size, stride or offset in a rule: a number, or an expression over the symbols of the trace.
//
//   Sizes sizes = x.sizes;                    // what a rule computes with numbers it computes with symbols too
//   if (sizes[0] == 1) ...                    // a question about one is answered for the example, and guarded
//   const int64_t n = sizes[0];               // a number is wanted: the size is specialised, and guarded
//
// So a rule that was written for numbers is right as it stands, whatever the sizes are; it gives up as much
// generality as it asks for. A number costs what it costs as an int64_t.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "ir/shape_env.h"
#include "ir/size.h"
#include "ir/size_span.h"

namespace braze::capture {

/// What the sizes of a trace may be made of, and who asks about them. One a trace that has symbols.
struct Symbols {
  ir::ShapeEnv* env;
  std::string why = {};                           ///< Who asks now: "aten::view at model.py:3".
  std::deque<std::vector<int64_t>> numbers = {};  ///< Lists of numbers that were asked for as such.
  std::vector<std::string> specialised = {};      ///< For people: "n == 8, asked for by aten::unfold".
  size_t specialisations = 0;
};

/// The symbols that sizes on this thread are made of, while one of these lives; null: none.
class SymbolsScope {
 public:
  explicit SymbolsScope(Symbols* symbols) : outer_(std::exchange(current_, symbols)) {}
  ~SymbolsScope() { current_ = outer_; }
  SymbolsScope(const SymbolsScope&) = delete;
  SymbolsScope& operator=(const SymbolsScope&) = delete;
  static Symbols* current() { return current_; }

 private:
  static thread_local Symbols* current_;
  Symbols* outer_;
};

class Dim {
 public:
  constexpr Dim() = default;
  template <std::integral Number>
  Dim(Number number) : size_(number) {}  // NOLINT: a number is one
  Dim(ir::Size size) : size_(size) {}    // NOLINT: likewise

  bool is_number() const { return size_.is_constant(); }
  ir::Size size() const { return size_; }
  /// Specialises.
  operator int64_t() const { return is_number() ? static_cast<int64_t>(size_.bits()) : specialised(); }  // NOLINT
  /// Its value for the example: where any answer is right.
  int64_t hint() const;
  /// Whether the values of the symbols that the guards let through say so: nothing is guarded.
  bool is_surely(int64_t number) const;

  friend Dim operator+(Dim a, Dim b) { return a.size_ + b.size_; }
  friend Dim operator-(Dim a, Dim b) { return a.size_ - b.size_; }
  friend Dim operator-(Dim a) { return -a.size_; }
  friend Dim operator*(Dim a, Dim b) { return a.size_ * b.size_; }
  /// As in C of numbers that are not negative, which a guard says where it is not known.
  friend Dim operator/(Dim a, Dim b);
  friend Dim operator%(Dim a, Dim b);
  Dim& operator+=(Dim other) { return *this = *this + other; }
  Dim& operator-=(Dim other) { return *this = *this - other; }
  Dim& operator*=(Dim other) { return *this = *this * other; }
  Dim& operator/=(Dim other) { return *this = *this / other; }

  friend bool operator==(Dim a, Dim b) {
    return a.size_ == b.size_ || (a.any(b) && decide(ir::equal(a.size_, b.size_)));
  }
  friend bool operator<(Dim a, Dim b) {
    return a.any(b) ? decide(ir::less(a.size_, b.size_)) : number(a) < number(b);
  }
  friend bool operator!=(Dim a, Dim b) { return !(a == b); }
  friend bool operator>(Dim a, Dim b) { return b < a; }
  friend bool operator<=(Dim a, Dim b) { return !(b < a); }
  friend bool operator>=(Dim a, Dim b) { return !(a < b); }

#define BRAZE_MIXED(op, Result)                \
  template <std::integral Number>              \
  friend Result operator op(Dim a, Number b) { \
    return a op Dim(b);                        \
  }                                            \
  template <std::integral Number>              \
  friend Result operator op(Number a, Dim b) { \
    return Dim(a) op b;                        \
  }
  BRAZE_MIXED(+, Dim)
  BRAZE_MIXED(-, Dim)
  BRAZE_MIXED(*, Dim)
  BRAZE_MIXED(/, Dim)
  BRAZE_MIXED(%, Dim)
  BRAZE_MIXED(==, bool)
  BRAZE_MIXED(!=, bool)
  BRAZE_MIXED(<, bool)
  BRAZE_MIXED(<=, bool)
  BRAZE_MIXED(>, bool)
  BRAZE_MIXED(>=, bool)
#undef BRAZE_MIXED

 private:
  static int64_t number(Dim a) { return static_cast<int64_t>(a.size_.bits()); }
  bool any(Dim other) const { return !is_number() || !other.is_number(); }
  static bool decide(const ir::SizeTest& test);
  int64_t specialised() const;
  ir::Size size_;
};

/// The larger of both, without a guard.
Dim larger(Dim a, Dim b);
Dim smaller(Dim a, Dim b);
/// Rounded up; b > 0.
Dim ceil_div(Dim a, Dim b);
/// The same with quotients that leave nothing, for the example, as such, which a guard keeps: `n // 2 * 2` is n
/// where n is even. For sizes that only fit then.
Dim whole(Dim dim);

using Sizes = c10::SmallVector<Dim, 5>;
/// Which dimensions: numbers always.
using Places = c10::SmallVector<int64_t, 5>;

/// Sizes or strides, of either kind, to be read.
class DimsRef {
 public:
  DimsRef() = default;
  DimsRef(const Dim* data, size_t count) : data_(data), count_(count) {}
  DimsRef(const Sizes& sizes) : DimsRef(sizes.data(), sizes.size()) {}                      // NOLINT: a view
  DimsRef(const c10::SmallVectorImpl<Dim>& sizes) : DimsRef(sizes.data(), sizes.size()) {}  // NOLINT
  DimsRef(std::initializer_list<Dim> sizes) : DimsRef(sizes.begin(), sizes.size()) {}       // NOLINT
  DimsRef(c10::IntArrayRef numbers)
      : DimsRef(reinterpret_cast<const Dim*>(numbers.data()), numbers.size()) {}                 // NOLINT
  DimsRef(const std::vector<int64_t>& numbers) : DimsRef(c10::IntArrayRef(numbers)) {}           // NOLINT
  DimsRef(const c10::SmallVectorImpl<int64_t>& numbers) : DimsRef(c10::IntArrayRef(numbers)) {}  // NOLINT
  DimsRef(std::span<const int64_t> numbers)
      : DimsRef(c10::IntArrayRef(numbers.data(), numbers.size())) {}  // NOLINT
  DimsRef(std::span<const ir::Size> sizes)
      : DimsRef(reinterpret_cast<const Dim*>(sizes.data()), sizes.size()) {}  // NOLINT
  DimsRef(const ir::SizeSpan& sizes) : DimsRef(sizes.symbolic()) {}           // NOLINT

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const Dim* data() const { return data_; }
  const Dim* begin() const { return data_; }
  const Dim* end() const { return data_ + count_; }
  const Dim& operator[](size_t k) const { return data_[k]; }
  const Dim& front() const { return data_[0]; }
  const Dim& back() const { return data_[count_ - 1]; }
  DimsRef slice(size_t first, size_t count) const { return {data_ + first, count}; }
  DimsRef slice(size_t first) const { return {data_ + first, count_ - first}; }

  std::span<const ir::Size> symbolic() const { return {reinterpret_cast<const ir::Size*>(data_), count_}; }
  bool is_numbers() const {
    return std::all_of(begin(), end(), [](const Dim& dim) { return dim.is_number(); });
  }
  /// Specialises all of them.
  c10::IntArrayRef numbers() const;
  operator c10::IntArrayRef() const { return numbers(); }  // NOLINT: as with each of them
  std::vector<int64_t> vec() const { return numbers().vec(); }
  friend bool operator==(DimsRef a, DimsRef b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  static_assert(sizeof(Dim) == sizeof(int64_t) && std::is_standard_layout_v<Dim>);
  const Dim* data_ = nullptr;
  size_t count_ = 0;
};

/// Of a tracer as they are, of a real tensor as numbers.
DimsRef dims_of(const at::Tensor& tensor);
DimsRef strides_of(const at::Tensor& tensor);

inline c10::IntArrayRef as_ints(const c10::SmallVectorImpl<Dim>& sizes) {
  return DimsRef(sizes).numbers();
}

}  // namespace braze::capture
