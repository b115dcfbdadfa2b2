// Layouts: what library calls ask is text that parses and prints, and the plan stores values as they ask.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/text.h"
#include "loops/layout.h"
#include "loops/plan.h"
#include "support/error.h"

using namespace braze;
using loops::LayoutDemand;
using Dims = std::vector<int64_t>;

namespace {

loops::Plan lower(const std::string& text) {
  std::shared_ptr<ir::Graph> graph = ir::parse(text);
  ir::verify(*graph);
  return loops::lower(std::move(graph));
}

const loops::CallStep& call_step(const loops::Plan& plan, size_t number = 0) {
  for (const loops::Step& step : plan.steps)
    if (step.kind == loops::Step::Kind::call && number-- == 0) return step.call;
  throw InternalError("no such call");
}

size_t kernels_launched(const loops::Plan& plan) {
  size_t count = 0;
  for (const loops::Step& step : plan.steps) count += step.kind == loops::Step::Kind::kernel;
  return count;
}

}  // namespace

TEST_CASE("demands print and parse") {
  for (const std::string text : {"any", "require traced", "prefer rows, any, require matrix", "prefer (0,2,3,1)"})
    CHECK(loops::print(loops::parse_layouts(text)) == text);
  CHECK(loops::parse_layouts("").empty());
  for (const char* wrong : {"prefer", "prefer sideways", "rows", "prefer (0,2)", "any any", "prefer (0,1"})
    CHECK_THROWS_AS(loops::parse_layouts(wrong), UserError);
}

TEST_CASE("demands on a node print and parse with the graph") {
  const std::string text = R"graph(graph @main(%x: f32[2,3,4,5], %w: f32[6,3,1,1]) {
  %0 = call %x, %w, target="aten::convolution" layouts="prefer (0,2,3,1), any" : f32[2,6,4,5]
  return %0
}
)graph";
  const auto graph = ir::parse(text);
  ir::verify(*graph);
  CHECK(ir::print(*graph) == text);
  const auto demands = loops::demands_of(*graph->first());
  REQUIRE(demands.size() == 2);
  CHECK(demands[0] == LayoutDemand{LayoutDemand::Strength::prefer, LayoutDemand::Form::order, {0, 2, 3, 1}});
  CHECK(demands[1].strength == LayoutDemand::Strength::any);
}

TEST_CASE("a preferred layout is stored by the kernel that computes the operand") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[2,3,4,5], %w: f32[6,3,1,1]) {
    %0 = relu %x : f32[2,3,4,5]
    %1 = call %0, %w target="aten::convolution" layouts="prefer (0,2,3,1), any" : f32[2,6,4,5]
    return %1
  })graph");
  CHECK(kernels_launched(plan) == 1);
  CHECK(call_step(plan).operands[0].strides == Dims{60, 1, 15, 3});
  CHECK(loops::print(plan).find("{60,1,15,3}") != std::string::npos);
}

TEST_CASE("a preference never causes a copy") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[2,3,4,5], %w: f32[6,3,1,1]) {
    %0 = call %x, %w, target="aten::convolution" layouts="prefer (0,2,3,1), any" : f32[2,6,4,5]
    return %0
  })graph");
  CHECK(kernels_launched(plan) == 0);
  CHECK(call_step(plan).operands[0].strides == Dims{60, 20, 5, 1});
}

TEST_CASE("a required layout is copied to where the memory is another's") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[8,16]) {
    %0 = permute %x dims=[1,0] : f32[16,8]{1,16}
    %1 = call %0 target="aten::sort" layouts="require rows" : f32[16,8]
    return %1
  })graph");
  CHECK(kernels_launched(plan) == 1);
  CHECK(call_step(plan).operands[0].strides == Dims{8, 1});
}

TEST_CASE("without a word an operator sees eager's strides") {
  // The type says transposed, the plan could have stored it either way.
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[8,16]) {
    %0 = neg %x : f32[8,16]{1,8}
    %1 = call %0 target="aten::sort" : f32[8,16]
    return %1
  })graph");
  CHECK(kernels_launched(plan) == 1);
  CHECK(call_step(plan).operands[0].strides == Dims{1, 8});
}

TEST_CASE("gaps and broadcast dimensions of a required layout") {
  SUBCASE("gaps between rows are kept") {
    const loops::Plan plan = lower(R"graph(graph @main(%x: f32[4,8]) {
      %0 = neg %x : f32[4,8]{10,1}
      %1 = call %0 target="aten::sort" : f32[4,8]
      return %1
    })graph");
    CHECK(call_step(plan).operands[0].strides == Dims{10, 1});
    CHECK(plan.buffers[call_step(plan).operands[0].buffer].bytes == (3 * 10 + 8) * 4);
  }
  SUBCASE("an expanded operand keeps its zero stride without a copy") {
    const loops::Plan plan = lower(R"graph(graph @main(%x: f32[1,8]) {
      %0 = expand %x : f32[4,8]{0,1}
      %1 = call %0 target="aten::sort" : f32[4,8]
      return %1
    })graph");
    CHECK(kernels_launched(plan) == 0);
    CHECK(call_step(plan).operands[0].strides == Dims{0, 1});
  }
}

TEST_CASE("opposite wishes: what costs more copies wins, the other is copied") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[8,16]) {
    %0 = neg %x : f32[8,16]
    %1 = call %0 target="a" layouts="require (1,0)" : f32[8]
    %2 = call %0 target="b" layouts="require (1,0)" : f32[8]
    %3 = call %0 target="c" layouts="require (0,1)" : f32[8]
    return %1, %2, %3
  })graph");
  CHECK(kernels_launched(plan) == 2);
  CHECK(call_step(plan, 0).operands[0].strides == Dims{1, 8});
  CHECK(call_step(plan, 1).operands[0].strides == Dims{1, 8});
  CHECK(call_step(plan, 2).operands[0].strides == Dims{16, 1});
}

TEST_CASE("results of the program keep the strides of their types") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[8,16]) {
    %0 = neg %x : f32[8,16]
    %1 = call %0 target="a" layouts="prefer (1,0)" : f32[8]
    return %0, %1
  })graph");
  CHECK(plan.outputs[0].strides == Dims{16, 1});
  CHECK(kernels_launched(plan) == 1);
}

TEST_CASE("attention gets rows of stride 1") {
  const loops::Plan plan = lower(R"graph(graph @main(%q: f32[1,2,4,8], %k: f32[1,2,8,4]) {
    %0 = neg %k : f32[1,2,8,4]
    %1 = permute %0 dims=[0,1,3,2] : f32[1,2,4,8]{64,32,1,4}
    %2 = sdpa %q, %1, %q : f32[1,2,4,8]
    return %2
  })graph");
  CHECK(kernels_launched(plan) == 1);
  CHECK(call_step(plan).operands[1].strides.back() == 1);
}
