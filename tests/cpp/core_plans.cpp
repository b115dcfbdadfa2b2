// Runs every case of tests/plans/*.plan:
//
//   ; CASE: what it shows
//   graph @name(...) {...}
//   ; EXPECT:
//   kernel ... plan {...}
//
// The graph goes through the passes and is lowered as compilation for AVX-512 does. The plan that is expected is
// also read, verified and run on numbers, as the graph is. With BRAZE_WRITE_EXPECTED=1 the files are written anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "graph_interpreter.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "plan_interpreter.h"
#include "support/error.h"

using namespace braze;
namespace fs = std::filesystem;
using test::Elements;

namespace {

struct Case {
  std::string comments, graph, expected;
};

std::vector<Case> read(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<Case> cases;
  std::string line;
  std::string Case::* part = nullptr;
  while (std::getline(stream, line)) {
    if (line.starts_with("; CASE: ")) {
      cases.emplace_back();
      part = &Case::comments;
    } else if (line == "; EXPECT:") {
      part = &Case::expected;
      continue;
    } else if (line.starts_with("graph ")) {
      part = &Case::graph;
    }
    if (part) cases.back().*part += line + "\n";
  }
  for (Case& each : cases)
    while (each.expected.ends_with("\n\n")) each.expected.pop_back();
  return cases;
}

void write(const fs::path& path, const std::vector<Case>& cases) {
  std::ofstream stream(path);
  std::string_view separator;
  for (const Case& each : cases) {
    stream << separator << each.comments << each.graph << "; EXPECT:\n" << each.expected;
    separator = "\n";
  }
}

/// Small integers: exact in every type, and places in range for whatever is an index.
std::vector<Elements> inputs_of(const ir::Graph& graph) {
  std::vector<Elements> inputs;
  for (const ir::Input& input : graph.inputs()) {
    Elements elements;
    for (int64_t k = 0; k < input.value->type->numel(); ++k) elements.push_back(static_cast<double>(k * 7 % 3));
    inputs.push_back(std::move(elements));
  }
  return inputs;
}

bool same(const std::vector<Elements>& found, const std::vector<Elements>& wanted) {
  constexpr double tolerance = 1e-5;
  const auto close = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || a == b ||
           std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
  };
  return std::ranges::equal(found, wanted,
                            [&](const Elements& a, const Elements& b) { return std::ranges::equal(a, b, close); });
}

}  // namespace

TEST_CASE("tests/plans") {
  const bool writes = std::getenv("BRAZE_WRITE_EXPECTED") != nullptr;
  const Target target(Isa::avx512);
  size_t computed = 0;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(BRAZE_TEST_DATA) / "plans"))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    std::vector<Case> cases = read(path);
    CHECK_MESSAGE(!cases.empty(), path.string());
    for (Case& each : cases) {
      CAPTURE(path.filename().string());
      CAPTURE(each.comments);
      const auto original = ir::parse(each.graph), graph = ir::parse(each.graph);
      passes::run(*graph, nullptr, true);
      const loops::Plan lowered = loops::lower(*graph, {.targets = {&target}});
      loops::verify(lowered);
      if (writes) each.expected = loops::print(lowered);
      CHECK(loops::print(lowered) == each.expected);
      const loops::Plan plan = loops::parse_plan(each.expected);
      loops::verify(plan);
      CHECK(loops::print(plan) == each.expected);
      if (!test::can_interpret(*original)) continue;
      ++computed;
      const std::vector<Elements> inputs = inputs_of(*original);
      CHECK(same(test::run(plan, inputs), test::interpret(*original, inputs)));
    }
    if (writes) write(path, cases);
  }
  CHECK(computed > 0);
}

TEST_CASE("what is wrong in the text of a plan is named with its place") {
  const std::string head = "plan {\n arena 0 unplanned 0\n #0 = input 0 : f32[4]\n #1 = output 0 : f32[4]\n ";
  const std::pair<std::string, std::string_view> cases[] = {
      {"plan {\n arena -1", "not negative"},
      {"plan {\n arena 0 unplanned 0\n #1 = input 0 : f32[4]", "numbered in order"},
      {"plan {\n arena 0 unplanned 0\n #0 = somewhere 0 : f32[4]", "a kind of buffer"},
      {"plan {\n arena 0 unplanned 0\n #0 = input 0 : f32[4]{9223372036854775807}", "no memory holds"},
      {head + "return #2\n}", "no buffer above"},
      {head + "launch @nothing(#0) reads=0 writes=0 fused=[]\n return #1\n}", "no kernel above"},
      {head + "region {\n call 'aten::sort'(#0) -> #1\n }\n return #1\n}", "expected 'launch'"},
      {head + "call 'a\\2'(#0) -> #1\n return #1\n}", "two hexadecimal digits"},
      {head + "return #1\n} plan", "end of the text"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    try {
      loops::parse_plan(text);
      FAIL_CHECK("read");
    } catch (const UserError& error) {
      CHECK_MESSAGE(std::string_view(error.what()).find(message) != std::string_view::npos,
                    std::string(error.what()));
      CHECK_MESSAGE(std::string_view(error.what()).starts_with("plan text, line"), std::string(error.what()));
    }
  }
}

TEST_CASE("a plan that reaches beyond its memory is refused") {
  const std::string kernel =
      "kernel @copy(%x: f32[4] in, %y: f32[4] out) {\n"
      "  for %0 in 0..4 {\n    %1 = load %x[%0] : f32\n    store %y[%0], %1\n  }\n}\n";
  const std::string launch = "launch @copy(#0, #1) reads=16 writes=16 fused=[]\n return #1\n}";
  const auto plan = [&](const std::string& buffers, const std::string& steps) {
    return kernel + "plan {\n arena 64 unplanned 64\n " + buffers + "\n " + steps;
  };
  const std::string good = "#0 = input 0 : f32[4]\n #1 = output 0 : f32[4]";
  loops::verify(loops::parse_plan(plan(good, launch)));
  const std::pair<std::string, std::string_view> cases[] = {
      {plan("#0 = input 0 : f32[3]\n #1 = output 0 : f32[4]", launch), "beyond #0"},
      {plan("#0 = output 0 : f32[4]\n #1 = input 0 : f32[4]", launch), "writes into input"},
      {plan("#0 = temporary 52 : f32[4]\n #1 = output 0 : f32[4]", launch), "beyond the arena"},
      {plan("#0 = input 0 : f32[4]\n #1 = part 4 of #0 : f32[4]", launch), "beyond #0"},
      {plan("#0 = input 0 : f32[4]\n #1 = part 0 : f32[4]", launch), "lie in another one"},
      {plan(good, "launch @copy(#0, #1[1..]) reads=0 writes=0 fused=[]\n return #1\n}"), "beyond #1"},
      {plan(good, "launch @copy(#0) reads=0 writes=0 fused=[]\n return #1\n}"), "takes 2 buffers"},
      {plan(good, "launch @copy(#0, #1, 3) reads=0 writes=0 fused=[]\n return #1\n}"), "takes 0 scalars"},
      {plan(good, "return #1 as f32[2,4]\n}"), "beyond #1"},
      {plan(good, "return #1 as f32[2] + 3\n}"), "beyond #1"},
      {plan(good, "return #0\n}"), "not the caller's"},
      {plan(good, "call 'aten::sort'(#0) -> #1\n return #1\n}"), "allocates its results"},
      {plan(good, "call 'aten::sort'($0) -> #1\n return #1\n}"), "expected an integer"},
      {plan(good, "call 'aten::sort'(#0) into -> #1\n return #1\n}"), "cannot write into memory"},
      {plan(good, "call 'aten::sort'(#0) results=[clone 0] -> #1\n return #1\n}"), "clone of nothing"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    try {
      loops::verify(loops::parse_plan(text));
      FAIL_CHECK("accepted");
    } catch (const std::exception& error) {
      CHECK_MESSAGE(std::string_view(error.what()).find(message) != std::string_view::npos,
                    std::string(error.what()));
    }
  }
}
