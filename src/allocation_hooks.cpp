// allocation_hooks.cpp: counts what a library asks the heap for (support/allocations.h).
//
// Linked into each of braze's libraries with `--wrap` for the names below: the linker then resolves the library's
// own calls of `malloc` to `__wrap_malloc`, and `__real_malloc` to the process's malloc. Memory comes from where it
// always came from, so anybody may free it; nobody else's calls are touched. (GNU ld, option --wrap.)
#include <cstddef>

#include "support/allocations.h"

// Mangled names are the Itanium C++ ABI's for a 64-bit size_t:
//   _Znwm                       operator new(size_t)
//   _Znam                       operator new[](size_t)
//   _ZnwmSt11align_val_t        operator new(size_t, align_val_t)
//   _ZnwmRKSt9nothrow_t         operator new(size_t, const nothrow_t&)
#define BRAZE_COUNTED(name, bytes, parameters, arguments)        \
  void* __real_##name parameters;                                \
  [[gnu::visibility("hidden")]] void* __wrap_##name parameters { \
    braze::count_allocation(bytes);                              \
    return __real_##name arguments;                              \
  }

extern "C" {
BRAZE_COUNTED(_Znwm, size, (size_t size), (size))
BRAZE_COUNTED(_Znam, size, (size_t size), (size))
BRAZE_COUNTED(_ZnwmSt11align_val_t, size, (size_t size, size_t alignment), (size, alignment))
BRAZE_COUNTED(_ZnwmRKSt9nothrow_t, size, (size_t size, const void* tag), (size, tag))
BRAZE_COUNTED(malloc, size, (size_t size), (size))
BRAZE_COUNTED(calloc, count* size, (size_t count, size_t size), (count, size))
BRAZE_COUNTED(realloc, size, (void* block, size_t size), (block, size))
}
