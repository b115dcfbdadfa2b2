// Backward graphs in stages: what each reads, gives and hands on.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "passes/backward_stages.h"

using namespace braze;

namespace {

// Of two layers; gradients are copied at the end, as a trace has them.
constexpr std::string_view layers =
    R"(graph @b(%saved0: f32[8,64], %saved1: f32[64,64], %saved2: f32[8,64], %saved3: f32[64,64], %tangent0: f32[8,64]) {
  %0 = permute %saved3, dims=[1,0] : f32[64,64]{1,64}
  %1 = mm %tangent0, %0 : f32[8,64]
  %2 = permute %saved2, dims=[1,0] : f32[64,8]{1,64}
  %3 = mm %2, %tangent0 : f32[64,64]
  %4 = mul %1, %saved2 : f32[8,64]
  %5 = permute %saved1, dims=[1,0] : f32[64,64]{1,64}
  %6 = mm %4, %5 : f32[8,64]
  %7 = permute %saved0, dims=[1,0] : f32[64,8]{1,64}
  %8 = mm %7, %4 : f32[64,64]
  %9 = cast %6 : f32[8,64]
  %10 = cast %8 : f32[64,64]
  %11 = cast %3 : f32[64,64]
  return %9, %10, %11
}
)";

std::vector<passes::BackwardStage> stages(std::string_view text, std::vector<std::vector<uint32_t>> before,
                                          int64_t least) {
  const std::unique_ptr<ir::Graph> graph = ir::parse(text);
  std::vector<passes::BackwardStage> found = passes::backward_stages(*graph, before, {least, 8});
  for (const passes::BackwardStage& one : found) ir::verify(*one.graph);
  return found;
}

using Numbers = std::vector<uint32_t>;

}  // namespace

TEST_CASE("a gradient is given before the next layer's is computed") {
  const auto found = stages(layers, {{}, {1}, {3}}, 64 * 64 * 4);
  REQUIRE(found.size() == 2);
  CHECK(found[0].inputs == Numbers{2, 3, 4});
  CHECK(found[0].gradients == Numbers{2});
  CHECK(found[0].handed_on == Numbers{5});
  CHECK(found[1].inputs == Numbers{0, 1, 2, 5});
  CHECK(found[1].gradients == Numbers{0, 1});
  CHECK(found[1].handed_on.empty());
  CHECK(ir::print(*found[0].graph) == R"(graph @b_0(%saved2: f32[8,64], %saved3: f32[64,64], %tangent0: f32[8,64]) {
  %0 = permute %saved3, dims=[1,0] : f32[64,64]{1,64}
  %1 = mm %tangent0, %0 : f32[8,64]
  %2 = permute %saved2, dims=[1,0] : f32[64,8]{1,64}
  %3 = mm %2, %tangent0 : f32[64,64]
  %4 = cast %3 : f32[64,64]
  return %4, %1
}
)");
}

TEST_CASE("a gradient waits for what is read before it is given") {
  // Whoever is given the last layer's gradient may write to the first layer's weight: it is read before.
  const auto found = stages(layers, {{}, {1}, {3, 1}}, 64 * 64 * 4);
  REQUIRE(found.size() == 2);
  CHECK(found[0].inputs == Numbers{1, 2, 3, 4});
  CHECK(found[1].inputs == Numbers{0, 5, 6});
  CHECK(found[1].gradients == Numbers{0, 1});
}

TEST_CASE("few gradients are given at once") {
  CHECK(stages(layers, {{}, {}, {}}, 1 << 20).empty());
}

TEST_CASE("a gradient that is read later is given when it was read") {
  const auto found = stages(R"(graph @b(%saved0: f32[64,64], %tangent0: f32[64,64]) {
  %0 = mm %saved0, %tangent0 : f32[64,64]
  %1 = mm %tangent0, %saved0 : f32[64,64]
  %2 = mm %0, %saved0 : f32[64,64]
  %3 = mm %2, %saved0 : f32[64,64]
  return %0, %1, %3
}
)",
                            {{}, {}, {}}, 64 * 64 * 4);
  REQUIRE(found.size() == 3);
  CHECK(found[0].gradients == Numbers{1});
  CHECK(found[1].gradients == Numbers{0});
  CHECK(found[2].gradients == Numbers{2});
}
