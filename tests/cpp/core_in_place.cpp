// Which results are stored straight into the graph inputs that they replace. What comes out is core_lowering.cpp's.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "support/error.h"

using namespace braze;

namespace {

loops::Plan lowered(const std::string& inputs, const std::string& body, size_t writable = 2) {
  std::shared_ptr<ir::Graph> graph = ir::parse("graph @f(" + inputs + ") {\n" + body + "\n}\n");
  ir::verify(*graph);
  passes::run(*graph);
  return loops::lower(*graph, {.writable = std::vector<bool>(writable, true)});
}

/// How many of the mutations are in place.
int in_place(const loops::Plan& plan) {
  int count = 0;
  for (const auto& [input, view] : plan.mutations)
    count += plan.buffers[view.buffer].kind == loops::BufferKind::mutated;
  return count;
}

constexpr const char* two = "%x: f32[64,64], %y: f32[64,64]";

}  // namespace

TEST_CASE("what is read only where it is stored is stored in place") {
  const loops::Plan plan = lowered(two, R"(
    %0 = mul %x, %y : f32[64,64]
    %1 = add %0, %x : f32[64,64]
    %2 = sub %y, %1 : f32[64,64]
    mutate %x, %1
    mutate %y, %2
    return)");
  CHECK(in_place(plan) == 2);
  CHECK(plan.arena_bytes == 0);
  REQUIRE(plan.kernels.size() == 1);
  CHECK(plan.kernels[0]->buffers.size() == 2);
}

TEST_CASE("what does not read its input at all, too") {
  CHECK(in_place(lowered(two, "%0 = exp %y : f32[64,64]\n mutate %x, %0\n return")) == 1);
}

TEST_CASE("an input that may overlap others is written at the end") {
  CHECK(in_place(lowered(two, "%0 = exp %x : f32[64,64]\n mutate %x, %0\n return", 0)) == 0);
}

TEST_CASE("old contents that are read elsewhere, or later, stay until the end") {
  const char* bodies[] = {
      // other elements of it
      "%0 = flip %x, dims=[0] : f32[64,64]\n %1 = add %x, %0 : f32[64,64]\n mutate %x, %1\n return",
      "%0 = permute %x, dims=[1,0] : f32[64,64]{1,64}\n %1 = add %x, %0 : f32[64,64]\n mutate %x, %1\n return",
      // by the caller
      "%0 = exp %x : f32[64,64]\n mutate %x, %0\n return %x",
      // by another mutation
      "%0 = exp %x : f32[64,64]\n mutate %x, %0\n mutate %y, %x\n return",
  };
  for (const char* body : bodies) {
    CAPTURE(body);
    CHECK(in_place(lowered(two, body)) == 0);
  }
}

TEST_CASE("a result that is returned as well has memory of its own") {
  const loops::Plan plan = lowered(two, "%0 = exp %x : f32[64,64]\n mutate %x, %0\n return %0");
  CHECK(in_place(plan) == 0);
}

TEST_CASE("nothing is written before what may fail") {
  const std::string inputs = "%x: f32[64,64], %i: i64[5]";
  const loops::Plan before = lowered(inputs, R"(
    %0 = exp %x : f32[64,64]
    %1 = index_select %0, %i, dim=0 : f32[5,64]
    mutate %x, %0
    return %1)");
  CHECK(in_place(before) == 0);
}

TEST_CASE("rows that are read as a whole before they are stored") {
  // Nobody has shown here that all of a row is read before the first element is written.
  const loops::Plan plan = lowered(two, R"(
    %0 = mean %x, dims=[1] keepdim=true : f32[64,1]
    %1 = sub %x, %0 : f32[64,64]
    mutate %x, %1
    return)");
  CHECK(in_place(plan) == 0);
}
