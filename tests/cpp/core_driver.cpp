// The driver: from graph text to an artifact that points into no graph.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "compile/driver.h"
#include "ir/text.h"
#include "plan_interpreter.h"
#include "support/error.h"

using namespace braze;

namespace {

constexpr const char* mixture = R"(graph @mixture(%x: f32[6,40], %w: f32[40,5]) {
  %0 = tanh %x : f32[6,40]
  %1 = softmax %0, dim=1 : f32[6,40]
  %2 = mm %1, %w : f32[6,5]
  %3 = relu %2 : f32[6,5]
  return %3, %1
})";

constexpr const char* convolution = R"(graph @images(%x: f32[2,32,8,8], %w: f32[32,32,1,1]) {
  %0 = relu %x : f32[2,32,8,8]
  %1 = call %0, %w, target="aten::convolution" arguments="$0, $1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1" : f32[2,32,8,8]
  %2 = sigmoid %1 : f32[2,32,8,8]
  %3 = sum %2, dims=[2,3] keepdim=false : f32[2,32]
  return %3
})";

driver::Options without_disk() {
  driver::Options options;
  options.verify = true;
  options.code.use_disk_cache = false;
  return options;
}

driver::Artifact compile(const char* text, const driver::Options& options) {
  const auto graph = ir::parse(text);  // It dies here.
  return driver::compile(*graph, options);
}

}  // namespace

TEST_CASE("an artifact outlives its graph, and its plan runs when read from text") {
  const driver::Artifact artifact = compile(mixture, without_disk());
  REQUIRE(artifact.code.size() == artifact.plan.kernels.size());
  for (const auto& code : artifact.code) CHECK(code->code_bytes() > 0);
  const loops::Plan again = loops::parse_plan(loops::print(artifact.plan));
  loops::verify(again);
  const std::vector<test::Elements> inputs = {test::Elements(240, 0.5), test::Elements(200, 0.25)};
  const auto results = test::run(again, inputs);
  REQUIRE(results.size() == 2);
  for (const double element : results[0]) CHECK(element == doctest::Approx(0.25));
  for (const double element : results[1]) CHECK(element == doctest::Approx(1.0 / 40));
}

TEST_CASE("graphs of symbols are rewritten as those of numbers are") {
  // A product of bf16 is rounded before a step that would make another integer of it.
  constexpr const char* numbers =
      "graph @g(%x: bf16[8]) {\n %0 = mul %x, %x : bf16[8]\n"
      " %1 = floor %0 : bf16[8]\n return %1\n}";
  constexpr const char* symbols =
      "graph @g[n = 8](%x: bf16[n]) {\n %0 = mul %x, %x : bf16[n]\n"
      " %1 = floor %0 : bf16[n]\n return %1\n}";
  const driver::Facts wanted = compile(numbers, without_disk()).facts;
  const auto graph = ir::parse(symbols);
  const driver::Facts facts = driver::compile_symbolic(*graph, without_disk()).facts;
  REQUIRE(facts.kernels.size() == 1);
  CHECK(facts.kernels[0].fused == wanted.kernels[0].fused);
  CHECK(facts.nodes_traced == 2);
  CHECK(facts.nodes == wanted.nodes);
  CHECK(facts.nodes > 2);
}

TEST_CASE("facts say what happened") {
  const driver::Facts facts = compile(mixture, without_disk()).facts;
  CHECK(facts.nodes_traced == 4);
  CHECK(facts.nodes > 4);
  REQUIRE(facts.steps.size() == 3);
  CHECK(facts.steps[0].kind == "kernel");
  CHECK(facts.steps[0].name == facts.kernels[0].name);
  CHECK(facts.steps[1].kind == "call");
  CHECK(facts.steps[1].name == "aten::mm");
  REQUIRE(facts.kernels.size() == 2);
  CHECK(facts.kernels[1].fused == std::vector<std::string>{"%" + std::to_string(facts.nodes - 1) + " = relu"});
  CHECK(facts.kernels[1].launches == 1);
  CHECK(facts.kernels[1].bytes_written == 6 * 5 * 4);
  CHECK(facts.kernels[1].code_bytes > 0);
  CHECK(facts.output_bytes == (6 * 5 + 6 * 40) * 4);
  CHECK(facts.code_bytes == static_cast<int64_t>(facts.kernels[0].code_bytes + facts.kernels[1].code_bytes));
  CHECK(facts.times.total() > 0);
}

TEST_CASE("compilation stops where it is told to") {
  driver::Options options = without_disk();
  options.last = driver::Stage::passes;
  CHECK(compile(mixture, options).plan.steps.empty());
  options.last = driver::Stage::plan;
  const driver::Artifact artifact = compile(mixture, options);
  CHECK(artifact.plan.steps.size() == 3);
  CHECK(artifact.code.empty());
  CHECK(artifact.facts.steps.size() == 3);
}

TEST_CASE("convolutions are laid out as they are wanted, and the facts say how") {
  driver::Options options = without_disk();
  options.last = driver::Stage::plan;
  CHECK(compile(convolution, options).facts.convolutions == driver::ConvolutionLayout::traced);
  options.convolutions = driver::Convolutions::cheapest;
  const driver::Artifact cheapest = compile(convolution, options);
  CHECK(cheapest.facts.convolutions == driver::ConvolutionLayout::channels_last);
  CHECK(loops::print(cheapest.plan).find("{2048,1,256,32}") != std::string::npos);
  // What was rewritten once is lowered in another way.
  const auto graph = ir::parse(convolution);
  driver::compile(*graph, options);
  options.convolutions = driver::Convolutions::as_traced;
  CHECK(driver::compile_rewritten(*graph, options).facts.convolutions == driver::ConvolutionLayout::traced);
}
