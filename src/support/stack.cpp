// support/stack.cpp
#include "support/stack.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace braze {

namespace {

struct Stack {
  uintptr_t lowest = 0, middle = 0;  ///< Equal: not known.

  Stack() noexcept {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* start = nullptr;
    size_t size = 0;
    if (pthread_attr_getstack(&attributes, &start, &size) == 0) {
      lowest = reinterpret_cast<uintptr_t>(start);
      middle = lowest + size / 2;
    }
    pthread_attr_destroy(&attributes);
  }
};

}  // namespace

bool stack_is_short() noexcept {
  thread_local const Stack stack;
  const char here = 0;
  const auto at = reinterpret_cast<uintptr_t>(&here);
  return at >= stack.lowest && at < stack.middle;  // Elsewhere: a stack that somebody made for a coroutine.
}

}  // namespace braze
