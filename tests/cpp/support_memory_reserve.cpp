#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "support/memory_reserve.h"

using braze::MemoryReserve;

namespace {

/// The sanitizers' own operator new ends the process where there is no memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

size_t address_space() {
  size_t pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (!file || std::fscanf(file, "%zu", &pages) != 1) pages = 0;
  if (file) std::fclose(file);
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/// That no compiler leaves out.
[[gnu::noinline]] std::unique_ptr<char[]> taken(size_t bytes) {
  std::unique_ptr<char[]> memory(new char[bytes]);
  asm volatile("" : : "r"(memory.get()) : "memory");
  return memory;
}

/// Runs `body` in a child that may take `room` bytes more than it has; true if it returned true.
template <typename Body>
bool holds_with_room(size_t room, Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlim_t limit = address_space() + room;
    const rlimit both{limit, limit};
    _exit(setrlimit(RLIMIT_AS, &both) == 0 && body() ? 0 : 1);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  return status == 0;
}

}  // namespace

TEST_CASE("a reserve that the system has not raises at once" * doctest::skip(is_sanitized)) {
  CHECK(holds_with_room(1 << 20, [] {
    try {
      const MemoryReserve reserve(64 << 20);
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  }));
}

TEST_CASE("what fails within a reserve takes from it, once" * doctest::skip(is_sanitized)) {
  CHECK(holds_with_room(960 << 20, [] {
    const MemoryReserve reserve(640 << 20);
    const MemoryReserve inner(640 << 20);  // adds nothing
    const auto large = taken(600 << 20);
    if (braze::release_memory_reserve()) return false;
    try {
      const auto more = taken(600 << 20);
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  }));
}

TEST_CASE("reserves are given back" * doctest::skip(is_sanitized)) {
  CHECK(holds_with_room(96 << 20, [] {
    for (int i = 0; i < 10; ++i) const MemoryReserve reserve(64 << 20);
    return true;
  }));
  CHECK_FALSE(braze::release_memory_reserve());
}
