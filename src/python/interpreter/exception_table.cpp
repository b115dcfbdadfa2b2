// python/interpreter/exception_table.cpp
#include "python/interpreter/exception_table.h"

namespace braze::interpreter {

namespace {

/// Big-endian groups of six bits; bit 6 says that another follows, bit 7 marks the start of an entry.
int read_varint(const uint8_t*& at) {
  int value = *at & 63;
  while (*at & 64) value = (value << 6) | (*++at & 63);
  ++at;
  return value;
}

}  // namespace

Region read_region(const uint8_t*& at) {
  Region region{};
  region.start = read_varint(at);
  region.size = read_varint(at);
  region.handler = read_varint(at);
  const int depth_and_offset = read_varint(at);
  region.depth = depth_and_offset >> 1;
  region.wants_offset = depth_and_offset & 1;
  return region;
}

bool find_region(PyCodeObject* code, int offset, Region& found) {
  bool is_found = false;
  for_each_region(code, [&](const Region& region) {
    if (region.start > offset) return false;  // Entries are sorted.
    is_found = offset < region.start + region.size;
    if (is_found) found = region;
    return !is_found;
  });
  return is_found;
}

}  // namespace braze::interpreter
