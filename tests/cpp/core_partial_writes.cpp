// Writes into a part of a graph input, in place. What comes out is tests/python/test_partial_writes.py's.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "ir/text.h"
#include "loops/plan.h"
#include "passes/pipeline.h"

using namespace braze;

namespace {

loops::Plan lowered(const std::string& body) {
  std::shared_ptr<ir::Graph> graph =
      ir::parse("graph @f(%c: f32[8,64,16], %k: f32[8,2,16], %i: i64[2], %m: f32[16,16]) {\n" + body + "\n}\n");
  ir::verify(*graph);
  passes::run(*graph);
  loops::Plan plan = loops::lower(*graph, {.writable = std::vector<bool>(4, true)});
  loops::verify(plan);
  CHECK(loops::print(loops::parse_plan(loops::print(plan))) == loops::print(plan));
  return plan;
}

constexpr int64_t whole = 8 * 64 * 16 * 4;

/// The input is written in place, and no kernel writes as much as it holds.
bool is_in_place(const loops::Plan& plan) {
  const bool small = std::ranges::all_of(plan.steps, [](const loops::Step& step) {
    return step.kind == loops::StepKind::call || step.kernel.bytes_written < whole;
  });
  return small && plan.buffers[plan.mutations[0].view.buffer].kind == loops::BufferKind::mutated;
}

}  // namespace

TEST_CASE("a part of an input is written where it lies") {
  const char* bodies[] = {
      "%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]\n mutate %c, %0\n return",
      "%0 = slice_scatter %c, %k, dim=1 start=5 step=3 : f32[8,64,16]\n mutate %c, %0\n return",
      // through views
      R"(%0 = permute %c, dims=[1,0,2] : f32[64,8,16]{16,1024,1}
         %1 = permute %k, dims=[1,0,2] : f32[2,8,16]{16,32,1}
         %2 = slice_scatter %0, %1, dim=0 start=3 step=1 : f32[64,8,16]{16,1024,1}
         %3 = permute %2, dims=[1,0,2] : f32[8,64,16]
         mutate %c, %3
         return)",
      // a part of a part, which is read
      R"(%0 = slice %c, dim=0 start=2 step=1 : f32[4,64,16]
         %1 = slice %k, dim=0 start=0 step=1 : f32[4,2,16]{32,16,1}
         %2 = slice_scatter %0, %1, dim=1 start=5 step=1 : f32[4,64,16]
         %3 = slice_scatter %c, %2, dim=0 start=2 step=1 : f32[8,64,16]
         %4 = slice %2, dim=1 start=0 step=1 : f32[4,7,16]{1024,16,1}
         %5 = exp %4 : f32[4,7,16]
         mutate %c, %3
         return %5)",
      // one after the other, all of which is read
      R"(%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]
         %1 = exp %k : f32[8,2,16]
         %2 = slice_scatter %0, %1, dim=1 start=6 step=1 : f32[8,64,16]
         %3 = sum %2, dims=[1] keepdim=false : f32[8,16]
         mutate %c, %2
         return %3)",
      // places from tensors
      "%0 = index_put %c, %k, %i, dims=[1] combine=\"set\" : f32[8,64,16]\n mutate %c, %0\n return",
      // with what it is computed from
      R"(%0 = slice %c, dim=1 start=5 step=1 : f32[8,2,16]{1024,16,1}
         %1 = add %0, %k : f32[8,2,16]
         %2 = slice_scatter %c, %1, dim=1 start=5 step=1 : f32[8,64,16]
         mutate %c, %2
         return)",
      // after all who read it
      R"(%0 = sum %c, dims=[0,1] keepdim=false : f32[16]
         %1 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]
         mutate %c, %1
         return %0)",
      // a part that was taken before the part was written
      R"(%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]
         %1 = slice %c, dim=1 start=4 step=1 : f32[8,4,16]{1024,16,1}
         %2 = exp %k : f32[8,2,16]
         %3 = slice_scatter %1, %2, dim=1 start=0 step=1 : f32[8,4,16]{1024,16,1}
         %4 = slice_scatter %0, %3, dim=1 start=4 step=1 : f32[8,64,16]
         mutate %c, %4
         return)",
      // whatever fails afterwards
      R"(%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]
         %1 = index_select %m, %i, dim=0 : f32[2,16]
         mutate %c, %0
         return %1)",
  };
  for (const char* body : bodies) {
    CAPTURE(std::string(body));
    CHECK(is_in_place(lowered(body)));
  }
}

TEST_CASE("old contents that somebody needs are not written over") {
  const char* bodies[] = {
      // read later
      R"(%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]
         %1 = sum %0, dims=[0,1] keepdim=false : f32[16]
         %2 = slice %c, dim=1 start=0 step=1 : f32[8,2,16]{1024,16,1}
         %3 = add %2, %1 : f32[8,2,16]
         mutate %c, %0
         return %3)",
      // read, and something fails afterwards
      R"(%0 = slice %c, dim=1 start=5 step=1 : f32[8,2,16]{1024,16,1}
         %1 = add %0, %k : f32[8,2,16]
         %2 = slice_scatter %c, %1, dim=1 start=5 step=1 : f32[8,64,16]
         %3 = index_select %m, %i, dim=0 : f32[2,16]
         mutate %c, %2
         return %3)",
      // written elsewhere
      R"(%0 = slice %c, dim=1 start=0 step=1 : f32[8,63,16]{1024,16,1}
         %1 = slice_scatter %c, %0, dim=1 start=1 step=1 : f32[8,64,16]
         mutate %c, %1
         return)",
      // of a step on the way
      R"(%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]
         %1 = slice_scatter %0, %k, dim=1 start=6 step=1 : f32[8,64,16]
         %2 = sum %0, dims=[1] keepdim=false : f32[8,16]
         mutate %c, %1
         return %2)",
      // combined with what is there
      "%0 = index_put %c, %k, %i, dims=[1] combine=\"add\" : f32[8,64,16]\n mutate %c, %0\n return",
      // returned as it is
      "%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]\n mutate %c, %0\n return %0",
      "%0 = slice_scatter %c, %k, dim=1 start=5 step=1 : f32[8,64,16]\n mutate %c, %0\n return %c",
  };
  for (const char* body : bodies) {
    CAPTURE(std::string(body));
    CHECK_FALSE(is_in_place(lowered(body)));
  }
}

TEST_CASE("places from tensors are looked at before anything is written") {
  const loops::Plan plan =
      lowered("%0 = index_put %c, %k, %i, dims=[1] combine=\"set\" : f32[8,64,16]\n mutate %c, %0\n return");
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps[0].kernel.bytes_written == 0);
  CHECK(loops::has_checks(*plan.kernels[plan.steps[0].kernel.kernel]));
  CHECK(plan.steps[1].join == loops::Join::alone);
}
