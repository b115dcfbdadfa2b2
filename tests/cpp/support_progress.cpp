// What a terminal sees of work that takes its time.
#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "support/progress.h"

using namespace braze;
using namespace std::chrono_literals;

namespace {

struct Terminal {
  std::string text;
  Progress::Clock::time_point time = Progress::Clock::now();
  const Progress::Output output{[this](std::string_view more) { text += more; }, [this] { return time; }};
};

}  // namespace

TEST_CASE("work of less than a second is silent") {
  Terminal terminal;
  {
    Progress progress("compiling kernels", 2, &terminal.output);
    terminal.time += 900ms;
    progress.advance();
    progress.advance();
  }
  CHECK(terminal.text.empty());
}

TEST_CASE("after a second a line tells how far it is, ten times a second, and goes when the work ends") {
  Terminal terminal;
  {
    Progress progress("compiling kernels", 10, &terminal.output);
    terminal.time += 1100ms;
    progress.advance(4);
    const std::string first = "\rbraze: compiling kernels [########------------] 4 of 10";
    CHECK(terminal.text == first);
    terminal.time += 50ms;
    progress.advance();
    CHECK(terminal.text == first);
    terminal.time += 60ms;
    progress.advance(5);
    CHECK(terminal.text == first + "\rbraze: compiling kernels [####################] 10 of 10");
    terminal.text.clear();
  }
  CHECK(terminal.text == "\r" + std::string(56, ' ') + "\r");
}

TEST_CASE("without a terminal nothing is asked or written") {
  Progress progress("compiling kernels", 2, nullptr);
  progress.advance(5);
}

TEST_CASE("a terminal that fails does not end the work") {
  const auto fail = [](std::string_view) { throw std::runtime_error("gone"); };
  Terminal terminal;
  const Progress::Output broken{fail, [&] { return terminal.time; }};
  Progress progress("compiling kernels", 2, &broken);
  terminal.time += 2s;
  progress.advance();
}

TEST_CASE("threads advance together") {
  Terminal terminal;
  {
    Progress progress("compiling kernels", 4000, &terminal.output);
    terminal.time += 2s;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int k = 0; k < 1000; ++k) progress.advance();
      });
    threads.clear();
    terminal.time += 2s;
    progress.advance(0);
    CHECK(terminal.text.ends_with("4000 of 4000"));
  }
}
