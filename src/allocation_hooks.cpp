// allocation_hooks.cpp: counts what a library asks the heap for (support/allocations.h).
//
// Linked into each of braze's libraries with `--wrap` for the names below: the linker then resolves the library's
// own calls of `malloc` to `__wrap_malloc`, and `__real_malloc` to the process's malloc. Memory comes from where it
// always came from, so anybody may free it; nobody else's calls are touched. (GNU ld, option --wrap.)
#include <cstddef>
#include <new>

#include "support/allocations.h"
#include "support/memory_reserve.h"

// Mangled names are the Itanium C++ ABI's for a 64-bit size_t:
//   _Znwm                       operator new(size_t)
//   _Znam                       operator new[](size_t)
//   _ZnwmSt11align_val_t        operator new(size_t, align_val_t)
//   _ZnwmRKSt9nothrow_t         operator new(size_t, const nothrow_t&)
#define BRAZE_COUNTED(name, bytes, parameters, arguments, failure) \
  void* __real_##name parameters;                                  \
  [[gnu::visibility("hidden")]] void* __wrap_##name parameters {   \
    braze::count_allocation(bytes);                                \
    if (braze::allocation_is_to_fail()) [[unlikely]]               \
      failure;                                                     \
    void* const block = __real_##name arguments;                   \
    if (block || !braze::release_memory_reserve()) [[likely]]      \
      return block;                                                \
    return __real_##name arguments;                                \
  }

extern "C" {
BRAZE_COUNTED(_Znwm, size, (size_t size), (size), throw std::bad_alloc())
BRAZE_COUNTED(_Znam, size, (size_t size), (size), throw std::bad_alloc())
BRAZE_COUNTED(_ZnwmSt11align_val_t, size, (size_t size, size_t alignment), (size, alignment),
              throw std::bad_alloc())
BRAZE_COUNTED(_ZnwmRKSt9nothrow_t, size, (size_t size, const void* tag), (size, tag), return nullptr)
BRAZE_COUNTED(malloc, size, (size_t size), (size), return nullptr)
BRAZE_COUNTED(calloc, count* size, (size_t count, size_t size), (count, size), return nullptr)
BRAZE_COUNTED(realloc, size, (void* old, size_t size), (old, size), return nullptr)
}
