// support/size_bucket.h: sizes that share what was measured for one of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace braze {

/// The four highest bits of a size stay: sizes of one bucket differ by less than an eighth.
inline int64_t size_bucket(int64_t size) {
  const int low_bits = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(size))) - 4);
  return size >> low_bits << low_bits;
}

}  // namespace braze
