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
  return loops::lower(*graph);
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
  for (const std::string text : {"any", "require traced", "prefer rows, any, require matrix", "prefer (0,2,3,1)",
                                 "require (0,2,3,1), any -> (0,2,3,1)"})
    CHECK(loops::print(loops::parse_layouts(text)) == text);
  CHECK(loops::parse_layouts("").operands.empty());
  for (const char* wrong :
       {"prefer", "prefer sideways", "rows", "prefer (0,2)", "any any", "prefer (0,1", "any -> (0,2)", "any ->"})
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
  const auto demands = loops::layouts_of(*graph->first()).operands;
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

TEST_CASE("a call for its check alone has no result to lay out") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[3,3], %info: i32[]) {
    %0 = neg %x : f32[3,3]
    call %info target="aten::_linalg_check_errors" effect=true
    return %0
  })graph");
  CHECK(call_step(plan, 0).operands.size() == 1);
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

namespace {

/// Strides in which the kernel that ends with this operator stores its result.
Dims stored(const loops::Plan& plan, std::string_view op) {
  for (const loops::Step& step : plan.steps) {
    if (step.kind != loops::Step::Kind::kernel || !step.kernel.fused.back().ends_with(op)) continue;
    const loops::Kernel& kernel = *plan.kernels[step.kernel.kernel];
    for (size_t k = 0; k < step.kernel.buffers.size(); ++k) {
      const loops::PlanBuffer& buffer = plan.buffers[step.kernel.buffers[k]];
      if (kernel.buffers[k].access == loops::Access::out && buffer.kind != loops::BufferKind::output)
        return buffer.strides;
    }
  }
  throw InternalError("not stored");
}

}  // namespace

TEST_CASE("a call that says how it lays out its result is planned like that, and results of the program are not") {
  const loops::Plan plan = lower(R"graph(graph @main(%x: f32[2,3,4,5], %w: f32[6,3,1,1]) {
    %0 = call %x, %w target="aten::convolution" layouts="require (0,2,3,1), any -> (0,2,3,1)" : f32[2,6,4,5]
    return %0
  })graph");
  CHECK(call_step(plan).operands[0].strides == Dims{60, 1, 15, 3});
  CHECK(plan.buffers[static_cast<size_t>(call_step(plan).results[0])].strides == Dims{120, 1, 30, 6});
  CHECK(plan.outputs[0].strides == Dims{120, 20, 5, 1});
  CHECK(kernels_launched(plan) == 2);
}

TEST_CASE("layouts given for one lowering win over the node's own") {
  std::shared_ptr<ir::Graph> graph = ir::parse(R"graph(graph @main(%x: f32[2,3,4,5], %w: f32[6,3,1,1]) {
    %0 = call %x, %w target="aten::convolution" : f32[2,6,4,5]
    %1 = relu %0 : f32[2,6,4,5]
    return %1
  })graph");
  const ir::Node* convolution = graph->first();
  const loops::Plan plain = loops::lower(*graph);
  CHECK(kernels_launched(plain) == 1);
  const loops::Plan chosen = loops::lower(*graph, {.layouts = {{convolution, "require (0,2,3,1) -> (0,2,3,1)"}}});
  CHECK(call_step(chosen).operands[0].strides == Dims{60, 1, 15, 3});
  // The relu reads channels_last and stores as the caller is to see it.
  CHECK(kernels_launched(chosen) == 2);
  CHECK(chosen.outputs[0].strides == Dims{120, 20, 5, 1});
}

TEST_CASE("kernels between convolutions carry channels_last on") {
  SUBCASE("batch norm, relu and a padded pooling") {
    const loops::Plan plan =
        lower(R"graph(graph @main(%x: f32[2,3,8,8], %w: f32[16,3,1,1], %s: f32[16], %v: f32[16,16,1,1]) {
      %0 = call %x, %w target="aten::convolution" layouts="require (0,2,3,1) -> (0,2,3,1)" : f32[2,16,8,8]
      %1 = reshape %s : f32[16,1,1]
      %2 = mul %0, %1 : f32[2,16,8,8]
      %3 = relu %2 : f32[2,16,8,8]
      %4 = scalar value=-inf : f32[]
      %5 = pad %3, %4 low=[0,0,1,1] high=[0,0,1,1] : f32[2,16,10,10]
      %6 = index_map %5 origin=[0,0,0,0] map=[1,0,0,0,0,0,0,1,0,0,0,0,0,0,2,0,1,0,0,0,0,2,0,1] : f32[2,16,4,4,3,3]
      %7 = amax %6 dims=[4,5] keepdim=false : f32[2,16,4,4]
      %8 = call %7, %v target="aten::convolution" layouts="require (0,2,3,1) -> (0,2,3,1)" : f32[2,16,4,4]
      return %8
    })graph");
    CHECK(stored(plan, "= pad") == Dims{1600, 1, 160, 16});
    CHECK(stored(plan, "= amax") == Dims{256, 1, 64, 16});
    CHECK(call_step(plan, 1).operands[0].strides == Dims{256, 1, 64, 16});
    CHECK(kernels_launched(plan) == 5);  // x, mul and relu, pad, amax, the result
  }
  SUBCASE("upsampling by indices and a cat, whose parts are computed in their places") {
    const loops::Plan plan = lower(
        R"graph(graph @main(%x: f32[1,16,4,4], %w: f32[16,16,1,1], %k: i64[8,1], %y: f32[1,16,8,8], %v: f32[4,32,1,1]) {
      %0 = call %x, %w target="aten::convolution" layouts="require (0,2,3,1) -> (0,2,3,1)" : f32[1,16,4,4]
      %1 = relu %0 : f32[1,16,4,4]
      %2 = reshape %k : i64[1,8]
      %3 = index %1, %k, %2 dims=[2,3] : f32[1,16,8,8]
      %4 = neg %y : f32[1,16,8,8]
      %5 = cat %4, %3 dim=1 : f32[1,32,8,8]
      %6 = call %5, %v target="aten::convolution" layouts="require (0,2,3,1) -> (0,2,3,1)" : f32[1,4,8,8]
      return %6
    })graph");
    CHECK(call_step(plan, 1).operands[0].strides == Dims{2048, 1, 256, 32});
    CHECK(stored(plan, "= index") == Dims{2048, 1, 256, 32});
    CHECK(stored(plan, "= neg") == Dims{2048, 1, 256, 32});
  }
}
