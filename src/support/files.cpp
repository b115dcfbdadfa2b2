#include "support/files.h"

#include <unistd.h>

#include <cerrno>

namespace braze {

namespace {

/// \param move  of (address, bytes): as read(2) and write(2).
template <typename Byte, typename Move>
bool move_all(Byte* at, size_t size, Move move) {
  while (size > 0) {
    const ssize_t moved = move(at, size);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    at += moved, size -= static_cast<size_t>(moved);
  }
  return true;
}

}  // namespace

bool read_all(int descriptor, void* to, size_t size) {
  return move_all(static_cast<char*>(to), size, [&](char* at, size_t left) { return read(descriptor, at, left); });
}

bool write_all(int descriptor, const void* from, size_t size) {
  return move_all(static_cast<const char*>(from), size,
                  [&](const char* at, size_t left) { return write(descriptor, at, left); });
}

}  // namespace braze
