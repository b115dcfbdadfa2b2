// Regions: which kernels of a plan share a fork and join, and where they wait for each other.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"

using namespace braze;

namespace {

/// The program of the plan, one word a line: "{", "exp", "barrier", "call", "}".
std::vector<std::string> outline(const std::string& text) {
  std::shared_ptr<ir::Graph> graph = ir::parse(text);
  passes::run(*graph);
  const loops::Plan plan = loops::lower(*graph, {.fuse = false});
  std::vector<std::string> words;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const loops::Step& step = plan.steps[k];
    const bool goes_on = k + 1 < plan.steps.size() && plan.steps[k + 1].join != loops::Join::alone;
    if (step.join == loops::Join::alone && goes_on) words.push_back("{");
    if (step.join == loops::Join::after) words.push_back("barrier");
    const bool is_kernel = step.kind == loops::Step::Kind::kernel;
    const std::string name = is_kernel ? plan.kernels[step.kernel.kernel]->name : "call";
    words.push_back(name.substr(0, name.find('_')));
    if (step.join != loops::Join::alone && !goes_on) words.push_back("}");
  }
  return words;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("kernels that need nothing of each other run side by side, others behind a barrier") {
  CHECK(outline(R"(graph @main(%x: f32[64], %y: f32[64]) {
    %0 = exp %x : f32[64]
    %1 = sin %y : f32[64]
    %2 = add %0, %1 : f32[64]
    return %2
  })") == Words{"{", "exp", "sin", "barrier", "add", "}"});
}

TEST_CASE("one kernel is no region") {
  CHECK(outline(R"(graph @main(%x: f32[64]) {
    %0 = exp %x : f32[64]
    return %0
  })") == Words{"exp"});
}

TEST_CASE("a library call ends a region") {
  CHECK(outline(R"(graph @main(%x: f32[8,8]) {
    %0 = exp %x : f32[8,8]
    %1 = mm %0, %0 : f32[8,8]
    %2 = sin %1 : f32[8,8]
    %3 = cos %1 : f32[8,8]
    return %2, %3
  })") == Words{"exp", "call", "{", "sin", "cos", "}"});
}

TEST_CASE("temporaries that share bytes of the arena wait for each other") {
  // %3 needs nothing of %2, but it lies where %1 lay, which %2 reads.
  CHECK(outline(R"(graph @main(%x: f32[64], %y: f32[64]) {
    %0 = exp %x : f32[64]
    %1 = sin %0 : f32[64]
    %2 = cos %1 : f32[64]
    %3 = tanh %y : f32[64]
    %4 = mul %2, %3 : f32[64]
    return %4
  })") == Words{"{", "exp", "barrier", "sin", "barrier", "cos", "barrier", "tanh", "barrier", "mul", "}"});
}

TEST_CASE("operands of a cat are copied at the same time") {
  CHECK(outline(R"(graph @main(%x: f32[4,3], %y: f32[4,5]) {
    %0 = cat %x, %y, dim=1 : f32[4,8]
    return %0
  })") == Words{"{", "cat", "cat", "}"});
}

TEST_CASE("an index is looked at before later kernels run") {
  const Words words = outline(R"(graph @main(%w: f32[10,4], %i: i64[3], %x: f32[4]) {
    %0 = exp %x : f32[4]
    %1 = embedding %w, %i : f32[3,4]
    %2 = sin %x : f32[4]
    return %0, %1, %2
  })");
  CHECK(words == Words{"{", "exp", "embedding", "}", "sin"});
}
