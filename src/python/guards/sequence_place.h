// python/guards/sequence_place.h: items of lists that are counted from the end.
//
// `out[-1]` is the last item, however many there are. The index of a sequence_item source is a place from the
// start, or such a number.
#pragma once

#include <Python.h>

#include <cstdint>

namespace braze::guards {

/// The index of a sequence_item source for the index that Python is given.
inline uint32_t sequence_index(int32_t index) noexcept {
  return static_cast<uint32_t>(index);
}

inline bool is_from_end(uint32_t index) noexcept {
  return static_cast<int32_t>(index) < 0;
}

/// Where that is in a sequence of so many items. Beyond them where there is no such item.
inline size_t place_of_index(uint32_t index, Py_ssize_t length) noexcept {
  return is_from_end(index) ? static_cast<size_t>(length + static_cast<int32_t>(index)) : index;
}

}  // namespace braze::guards
