// What a thread asks the heap for, and the arena that asks for little.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

#include "support/allocations.h"
#include "support/arena.h"
#include "support/phases.h"

using namespace braze;

namespace {

/// The compiler may leave out a pair of new and delete whose memory nobody looks at.
template <typename T>
T* seen(T* memory) {
  asm volatile("" : : "r"(memory) : "memory");
  return memory;
}

}  // namespace

TEST_CASE("every way of asking for memory is counted, by thread") {
  const Allocations before = thread_allocations();
  delete seen(new int64_t(1));
  delete[] seen(new char[100]);
  struct alignas(64) Line {
    char bytes[64];
  };
  delete seen(new Line);
  void* block = seen(std::malloc(10));
  block = seen(std::realloc(block, 20));
  std::free(block);
  std::free(seen(std::calloc(3, 5)));
  CHECK(thread_allocations() - before == Allocations{6, 8 + 100 + 64 + 10 + 20 + 15});

  Allocations helper;
  std::thread([&] {
    const Allocations start = thread_allocations();
    delete seen(new int64_t(1));
    helper = thread_allocations() - start;
  }).join();
  CHECK(helper == Allocations{1, 8});
  const Allocations mine = thread_allocations();
  adopt_allocations(helper);
  CHECK(thread_allocations() - mine == helper);
}

TEST_CASE("a phase has the allocations of its lifetime, a part counts in the whole once") {
  PhaseTimes times;
  for (int round = 0; round < 2; ++round) {
    const PhaseTimer whole(&times, "a");
    delete[] seen(new char[16]);
    const PhaseTimer part(&times, "a/b");
    delete[] seen(new char[32]);
  }
  REQUIRE(times.rows().size() == 2);
  const PhaseTimes::Row &part = times.rows()[0], &whole = times.rows()[1];
  CHECK(part.name == "a/b");
  CHECK(part.entered == 2);
  CHECK(part.allocations == Allocations{2, 64});
  // The row of the part was itself made within the whole.
  CHECK(whole.allocations.count >= 4);
  CHECK(whole.allocations.bytes >= 96);
  CHECK(times.total_allocations() == whole.allocations);
  CHECK(times.total() == whole.nanoseconds);
}

TEST_CASE("an arena holds little more than it has handed out") {
  CountedMemory memory;
  {
    Arena arena(memory);
    CHECK(memory.bytes() == 0);
    size_t handed_out = 0;
    for (size_t k = 0; k < 20'000; ++k) {
      const std::span<char> text = arena.allocate<char>(k % 7);
      std::ranges::fill(text, 'x');
      const std::span<double> numbers = arena.allocate<double>(k % 5);
      CHECK(reinterpret_cast<uintptr_t>(numbers.data()) % alignof(double) == 0);
      for (double& number : numbers) number = 1;
      handed_out += text.size() + numbers.size_bytes();
    }
    CHECK(arena.used() >= handed_out);
    CHECK(arena.held() <= arena.used() * 5 / 4 + 4096);
    CHECK(memory.bytes() >= arena.held());
    CHECK(memory.bytes() < arena.held() * 1.1);
    CHECK(memory.peak() >= memory.bytes());
  }
  CHECK(memory.bytes() == 0);
  CHECK(memory.peak() > 0);
}

TEST_CASE("an arena takes what is larger than its blocks, and nothing for nothing") {
  CountedMemory memory;
  Arena arena(memory);
  CHECK(arena.allocate<int>(0).empty());
  CHECK(arena.held() == 0);
  const std::span<int> large = arena.allocate<int>(1'000'000);
  large.back() = 7;
  CHECK(arena.held() == large.size_bytes());
  const int some[] = {1, 2, 3};
  const std::span<int> copy = arena.copy(std::span<const int>(some));
  CHECK(std::ranges::equal(copy, some));
  CHECK(copy.data() != some);
  CHECK(arena.used() == large.size_bytes() + sizeof some);
}
