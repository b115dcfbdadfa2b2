// codegen/nvptx/linear.h: integers as sums over few values, with bounds: what indices are while code is emitted.
//
// Copies of an unrolled loop's body, and the lanes of a vector loop, have indices that differ by constants. Kept
// apart from the rest, these end up as offsets of memory instructions; the rest is computed once. Bounds tell where
// 32 bits do, which is most of the time, and where a division needs no care for signs.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <optional>

namespace braze::codegen::nvptx {

/// Both ends are possible values.
struct Range {
  int64_t low, high;
  bool fits_32() const { return low >= INT32_MIN && high <= INT32_MAX; }
  static Range of(int64_t value) { return {value, value}; }
};
using MaybeRange = std::optional<Range>;

// Bounds of results; nothing where 64 bits do not hold them.
MaybeRange add(const MaybeRange& a, const MaybeRange& b);
MaybeRange scale(const MaybeRange& a, int64_t by);
MaybeRange join(const MaybeRange& a, const MaybeRange& b);  ///< Of a value that is either.

/// A value as it is computed: i32 where its bounds allow, else i64.
struct Base {
  llvm::Value* value = nullptr;
  MaybeRange range;
  int64_t multiple = 1;  ///< Of so many, a power of two, it is a multiple.
  bool operator==(const Base& other) const { return value == other.value; }
};

/// constant + sum of factor * base.
struct Linear {
  struct Term {
    Base base;
    int64_t factor;
  };
  llvm::SmallVector<Term, 4> terms;  ///< No two of the same base, no factor 0.
  int64_t constant = 0;

  Linear() = default;
  Linear(int64_t number) : constant(number) {}  // NOLINT: a number is one
  explicit Linear(Base base) { terms.push_back({base, 1}); }
  void add(const Linear& other, int64_t factor = 1);
  bool is_constant() const { return terms.empty(); }
  MaybeRange range() const;
  int64_t multiple() const;  ///< The largest power of two, up to 16, that the sum is known to be a multiple of.
  bool same_terms(const Linear& other) const;
};

/// The sum, as i32 where every step of it fits, else as i64.
/// \param narrow  Values without bounds are known to fit in sums like this one (loops::Kernel::narrow).
llvm::Value* materialise(llvm::IRBuilderBase& b, const Linear& linear, bool narrow);
/// The same, sign-extended to i64.
llvm::Value* materialise_wide(llvm::IRBuilderBase& b, const Linear& linear, bool narrow);

}  // namespace braze::codegen::nvptx
