// loops/schedule/gpu/tuning.h: what the schedule of a GPU decides by figures, as one value that can be replaced:
//
//   threads=auto vector=32 vectors=4 kept=64 rows=auto cluster=65536
//
// Kernels are lowered with another value by lowering for the target that tuned() gives.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace braze::loops::gpu {

/// Who reduces a row along contiguous axes.
enum class RowStrategy : uint8_t { by_length, warp, block };

struct Tuning {
  /// Of a block whose threads, or warps, need nothing of each other; a power of two. 0: as the target says.
  int64_t threads = 0;
  int64_t vector = 0;   ///< Most bytes of a value that a thread takes at once; a power of two.
  int64_t vectors = 0;  ///< Of a row, that each thread of a block takes before there are more threads.
  int64_t kept = 0;     ///< Most elements of a row that a thread keeps from pass to pass; others are read again.
  RowStrategy rows = RowStrategy::by_length;
  int64_t cluster = 0;  ///< Elements of a row up to which a block reduces it alone. 0: it always does.
  auto operator<=>(const Tuning&) const = default;

  /// What the figures of a GPU choose.
  static Tuning of(const Target& target);
};

std::string print(const Tuning& tuning);
/// Reads what print() writes, separated by spaces or commas; what is left out is as in `base`. Throws UserError.
Tuning parse_tuning(std::string_view text, const Tuning& base);

/// `target` with the figures of `tuning`. Throws UserError where the machine cannot run such blocks.
Target tuned(const Target& target, const Tuning& tuning);

/// What may be faster than the default, which comes first; no two are equal.
std::vector<Tuning> candidates(const Target& target);

}  // namespace braze::loops::gpu
