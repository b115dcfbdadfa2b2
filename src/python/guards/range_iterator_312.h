// python/guards/range_iterator_312.h: the iterator of a range, which 3.12 lays out in another way.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>

namespace braze::guards {

struct RangeIterator {
  PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
      long index;
#endif
  long start, step, length;  ///< From 3.12 on, of what is left.

  static const std::array<std::size_t, 4> state;  ///< Where what changes lies.

#if PY_VERSION_HEX < 0x030C0000
  long left() const noexcept { return length - index; }
  /// How many steps from `start` the next item is.
  std::size_t given() const noexcept { return static_cast<std::size_t>(index); }
#else
  long left() const noexcept { return length; }
  std::size_t given() const noexcept { return 0; }
#endif
};

#if PY_VERSION_HEX < 0x030C0000
inline constexpr std::array<std::size_t, 4> RangeIterator::state = {offsetof(RangeIterator, index)};
#else
inline constexpr std::array<std::size_t, 4> RangeIterator::state = {offsetof(RangeIterator, start),
                                                                    offsetof(RangeIterator, length)};
#endif

}  // namespace braze::guards
