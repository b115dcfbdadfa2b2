// support/files.h: whole transfers to and from open files.
#pragma once

#include <cstddef>

namespace braze {

/// Go on after interrupts and short transfers. False: the end of the file, or an error, which errno names.
bool read_all(int descriptor, void* to, size_t size);
bool write_all(int descriptor, const void* from, size_t size);

}  // namespace braze
