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

HandlerRange read_handler_range(const uint8_t*& at) {
  HandlerRange range{};
  range.start = read_varint(at);
  range.size = read_varint(at);
  range.handler = read_varint(at);
  const int depth_and_offset = read_varint(at);
  range.depth = depth_and_offset >> 1;
  range.wants_offset = depth_and_offset & 1;
  return range;
}

bool find_handler_range(PyCodeObject* code, int offset, HandlerRange& found) {
  bool is_found = false;
  for_each_handler_range(code, [&](const HandlerRange& range) {
    if (range.start > offset) return false;  // Entries are sorted.
    is_found = offset < range.start + range.size;
    if (is_found) found = range;
    return !is_found;
  });
  return is_found;
}

}  // namespace braze::interpreter
