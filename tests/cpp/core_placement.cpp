// Placement: what is computed straight into the memory of the `cat` that joins it, and what is not.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/text.h"
#include "loops/plan.h"
#include "support/error.h"

using namespace braze;
using Dims = std::vector<int64_t>;

namespace {

loops::Plan lower(const std::string& text) {
  std::shared_ptr<ir::Graph> graph = ir::parse(text);
  ir::verify(*graph);
  return loops::lower(*graph);
}

/// Steps that a plan has, library calls included.
size_t steps(const std::string& text) {
  return lower(text).steps.size();
}

std::vector<const loops::PlanBuffer*> parts(const loops::Plan& plan) {
  std::vector<const loops::PlanBuffer*> found;
  for (const loops::PlanBuffer& buffer : plan.buffers)
    if (buffer.part_of >= 0) found.push_back(&buffer);
  return found;
}

}  // namespace

TEST_CASE("kernels write straight into a cat along an inner dimension") {
  const loops::Plan plan = lower(R"(graph @main(%x: f32[4,32], %y: f32[4,16]) {
    %0 = exp %x : f32[4,32]
    %1 = sin %y : f32[4,16]
    %2 = cat %0, %1, dim=1 : f32[4,48]
    return %2
  })");
  CHECK(plan.steps.size() == 2);
  CHECK(plan.arena_bytes == 0);
  const auto found = parts(plan);
  REQUIRE(found.size() == 2);
  CHECK(found[0]->offset == 0);
  CHECK(found[1]->offset == 32 * 4);
  CHECK(found[0]->strides == Dims{48, 1});
  CHECK(loops::print(plan).find("#3 = part 0 of #2") != std::string::npos);
  // Two parts have no element in common: no barrier between them.
  CHECK(loops::print(plan).find("barrier") == std::string::npos);
}

TEST_CASE("views between are undone: stack, and heads that were split") {
  CHECK(steps(R"(graph @main(%x: f32[4,32], %y: f32[4,32]) {
    %0 = exp %x : f32[4,32]
    %1 = reshape %0 : f32[4,1,32]
    %2 = sin %y : f32[4,32]
    %3 = reshape %2 : f32[4,1,32]
    %4 = cat %1, %3, dim=1 : f32[4,2,32]
    return %4
  })") == 2);
  CHECK(steps(R"(graph @main(%x: f32[6,2,32], %y: f32[2,6,32]) {
    %0 = exp %x : f32[6,2,32]
    %1 = permute %0, dims=[1,0,2] : f32[2,6,32]
    %2 = cat %1, %y, dim=1 : f32[2,12,32]
    return %2
  })") == 2);
}

TEST_CASE("a cat in a cat") {
  const std::string text = R"(graph @main(%x: f32[4,32], %y: f32[4,17], %z: f32[4,19]) {
    %0 = exp %x : f32[4,32]
    %1 = sin %y : f32[4,17]
    %2 = cat %1, %0, dim=1 : f32[4,49]
    %3 = cos %z : f32[4,19]
    %4 = cat %3, %2, dim=1 : f32[4,68]
    return %4
  })";
  const loops::Plan plan = lower(text);
  std::vector<int64_t> offsets;
  for (const loops::PlanBuffer* part : parts(plan)) offsets.push_back(part->offset);
  // The inner cat in the outer one, then %0 and %1 in the inner one, %3 in the outer one.
  CHECK(offsets == std::vector<int64_t>{19 * 4, 17 * 4, 0, 0});
}

TEST_CASE("what else reads an operand, or gets it, keeps it in memory of its own") {
  // Returned as well.
  CHECK(parts(lower(R"(graph @main(%x: f32[4,32], %y: f32[4,32]) {
    %0 = exp %x : f32[4,32]
    %1 = cat %0, %y, dim=1 : f32[4,64]
    return %0, %1
  })"))
            .empty());
  // Twice in one cat.
  CHECK(parts(lower(R"(graph @main(%x: f32[4,32]) {
    %0 = exp %x : f32[4,32]
    %1 = cat %0, %0, dim=1 : f32[4,64]
    return %1
  })"))
            .empty());
  // In two.
  CHECK(parts(lower(R"(graph @main(%x: f32[4,32], %y: f32[4,32]) {
    %0 = exp %x : f32[4,32]
    %1 = cat %0, %y, dim=1 : f32[4,64]
    %2 = cat %y, %0, dim=1 : f32[4,64]
    return %1, %2
  })"))
            .empty());
  // Only half of it is joined.
  CHECK(parts(lower(R"(graph @main(%x: f32[4,32], %y: f32[2,32]) {
    %0 = exp %x : f32[4,32]
    %1 = slice %0, dim=0 start=1 step=1 : f32[2,32]
    %2 = cat %1, %y, dim=1 : f32[2,64]
    return %2
  })"))
            .empty());
}

TEST_CASE("runs shorter than a cache line are joined by a copy") {
  CHECK(parts(lower(R"(graph @main(%x: f32[64,1], %y: f32[64,1]) {
    %0 = exp %x : f32[64,1]
    %1 = sin %y : f32[64,1]
    %2 = cat %0, %1, dim=1 : f32[64,2]
    return %2
  })"))
            .empty());
}

TEST_CASE("a matrix product is placed where its memory is packed") {
  const loops::Plan rows = lower(R"(graph @main(%x: f32[8,8], %y: f32[4,8]) {
    %0 = mm %x, %x : f32[8,8]
    %1 = cat %y, %0, dim=0 : f32[12,8]
    return %1
  })");
  REQUIRE(parts(rows).size() == 1);
  CHECK(parts(rows)[0]->offset == 4 * 8 * 4);
  CHECK(parts(lower(R"(graph @main(%x: f32[8,8], %y: f32[8,4]) {
    %0 = mm %x, %x : f32[8,8]
    %1 = cat %y, %0, dim=1 : f32[8,12]
    return %1
  })"))
            .empty());
}
