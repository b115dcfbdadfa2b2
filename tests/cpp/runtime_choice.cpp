// The measuring of methods: turns, who leaves early, what is decided. Times are given, so nothing here is random.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <thread>
#include <vector>

#include "runtime/choice.h"

using namespace braze;
using runtime::Choice;

namespace {

Hash128 key(std::string_view name) {
  return Hasher().add("runtime_choice.cpp").add(name).finish();
}

constexpr std::array<Choice::Method, 3> methods = {{{"first"}, {"second"}, {"third"}}};

/// Calls until the choice is made; how often each method ran before.
std::map<size_t, int> decide(Choice& choice, std::array<int64_t, 3> times) {
  std::map<size_t, int> ran;
  while (!choice.decided()) {
    const size_t method = choice.next();
    REQUIRE(++ran[method] < 100);
    choice.record(method, times[method]);
  }
  return ran;
}

}  // namespace

TEST_CASE("methods take turns and the fastest stays") {
  Choice choice(key("turns"), methods, false);
  CHECK(decide(choice, {100, 80, 90}) == std::map<size_t, int>{{0, 4}, {1, 4}, {2, 4}});
  CHECK(choice.next() == 1);
}

TEST_CASE("a method twice as slow leaves after two calls") {
  Choice choice(key("slow"), methods, false);
  CHECK(decide(choice, {100, 300, 90}) == std::map<size_t, int>{{0, 4}, {1, 2}, {2, 4}});
  CHECK(choice.next() == 2);
}

TEST_CASE("what is no faster than noise changes nothing") {
  Choice choice(key("noise"), methods, false);
  decide(choice, {100, 99, 98});
  CHECK(choice.next() == 0);
}

TEST_CASE("methods that cannot be, or refuse, are never asked again") {
  std::array<Choice::Method, 3> some = methods;
  some[0].possible = false;
  Choice choice(key("possible"), some, false);
  CHECK(choice.next() == 1);
  choice.exclude(1);
  CHECK(choice.decided());
  CHECK(choice.next() == 2);
}

TEST_CASE("one choice a key and number of threads, for all threads of the process") {
  runtime::ThreadedChoice& one = runtime::shared_choice(key("shared"), methods, 1, false);
  CHECK(&one == &runtime::shared_choice(key("shared"), methods, 1, false));
  CHECK(&one != &runtime::shared_choice(key("shared"), methods, 2, false));
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&one] {
      for (int call = 0; call < 50; ++call) {
        const size_t method = one.choice.next();
        if (!one.choice.decided()) one.choice.record(method, method == 2 ? 10 : 15);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(one.choice.decided());
  CHECK(one.choice.next() == 2);
}
