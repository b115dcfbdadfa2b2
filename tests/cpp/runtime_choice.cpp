// The measuring of methods: what trials may cost, who leaves early, what is decided. Times are given, so nothing
// here is random.
#include <doctest/doctest.h>

#include <algorithm>
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
  for (int call = 0; !choice.decided(); ++call) {
    REQUIRE(call < 2000);
    const size_t method = choice.next();
    ++ran[method];
    choice.record(method, times[method]);
  }
  return ran;
}

}  // namespace

TEST_CASE("others are tried within a twentieth of the time, and the fastest stays") {
  Choice choice(key("turns"), methods, false);
  for (int call = 0; call < 20; ++call) {
    CHECK(choice.next() == 0);
    choice.record(0, 100);
  }
  const std::map<size_t, int> ran = decide(choice, {100, 80, 90});
  CHECK(ran.at(2) >= 4);
  CHECK(choice.next() == 1);
}

TEST_CASE("what is expected to be fastest runs first") {
  std::array<Choice::Method, 3> some = methods;
  some[2].expected = true;
  Choice choice(key("expected"), some, false);
  CHECK(choice.next() == 2);
  for (int call = 0; call < 20; ++call) choice.record(2, 100);
  CHECK(choice.next() != 2);
  CHECK(decide(choice, {150, 120, 100}).at(2) > 20);
  CHECK(choice.next() == 2);
}

TEST_CASE("trials cost no more than a twentieth") {
  Choice choice(key("budget"), methods, false);
  int64_t spent = 0, extra = 0;
  for (int call = 0; call < 400; ++call) {
    const size_t method = choice.next();
    const int64_t time = method == 0 ? 100 : 190;
    choice.record(method, time);
    spent += time;
    extra += time - 100;
    CHECK(extra * 20 <= spent);
  }
  CHECK(choice.decided());
  CHECK(choice.next() == 0);
}

TEST_CASE("a method twice as slow leaves after two calls") {
  Choice choice(key("slow"), methods, false);
  CHECK(decide(choice, {100, 300, 90}).at(1) == 2);
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
      for (int call = 0; call < 200; ++call) {
        const size_t method = one.choice.next();
        if (!one.choice.decided()) one.choice.record(method, method == 2 ? 10 : 15);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(one.choice.decided());
  CHECK(one.choice.next() == 2);
}
