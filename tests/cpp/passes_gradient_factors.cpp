// What a backward multiplies its tangents with.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "passes/gradient_factors.h"

using namespace braze;

TEST_CASE("a sum of tangents has the factors of each") {
  const auto graph = ir::parse(R"(graph @joint(%x: f32[8], %w: f32[8], %tangent0: f32[8], %tangent1: f32[8]) {
  %0 = cos %x : f32[8]
  %1 = mul %tangent0, %0 : f32[8]
  %2 = scalar value=2.5 : f32[]
  %3 = mul %tangent1, %2 : f32[8]
  %4 = add %1, %3 : f32[8]
  %5 = mul %tangent1, %w : f32[8]
  return %4, %3, %5, %0
}
)");
  const auto factors = [&](uint32_t wanted) {
    const passes::GradientFactors found(*graph, 2, 2, [=](uint32_t input) { return input == wanted; });
    std::vector<std::pair<bool, bool>> all;
    for (const ir::Value* output : graph->outputs()) all.emplace_back(found.of(output)[0], found.of(output)[1]);
    return all;
  };
  using Rows = std::vector<std::pair<bool, bool>>;
  CHECK(factors(0) == Rows{{true, false}, {false, false}, {false, false}, {false, false}});
  CHECK(factors(1) == Rows{{false, false}, {false, false}, {false, true}, {false, false}});
}
