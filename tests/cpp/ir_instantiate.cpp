#include <doctest/doctest.h>

#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "support/error.h"

using namespace braze;
using namespace braze::ir;

namespace {

constexpr const char* text = R"(graph @main[n = 8, m = 5 in 2..64](%x: f32[n,4*m], %w: f32[m] param) {
  guard n >= 5
  %0 = slice %x, dim=1 start=m step=1 : f32[n,m]{4*m,1}
  %1 = scalar value=0.0 : f32[]
  %2 = pad %0, %1, low=[0,m] high=[n,0] : f32[2*n,2*m]
  %3 = size of=n*m : i64[]
  %4 = call %2, target="aten::sort" arguments="$0, -1" : f32[2*n,2*m]
  mutate %w, %w
  return %4, %3
}
)";

}  // namespace

TEST_CASE("an instance is the graph of numbers") {
  const auto graph = parse(text);
  verify(*graph);
  const int64_t symbols[] = {6, 2};
  const auto instance = instantiate(*graph, symbols);
  verify(*instance);
  CHECK(print(*instance) == R"(graph @main(%x: f32[6,8], %w: f32[2] param) {
  %0 = slice %x, dim=1 start=2 step=1 : f32[6,2]{8,1}
  %1 = scalar value=0.0 : f32[]
  %2 = pad %0, %1, low=[0,2] high=[6,0] : f32[12,4]
  %3 = scalar value=12 : i64[]
  %4 = call %2, target="aten::sort" arguments="$0, -1" : f32[12,4]
  mutate %w, %w
  return %4, %3
}
)");
  CHECK(exact_hash(*instance) == exact_hash(*parse(print(*instance))));
  CHECK(instance->find_shape_env() == nullptr);
  CHECK(print(*graph) == text);
}

TEST_CASE("values that the graph is not good for are refused by name") {
  const auto graph = parse(text);
  const auto message = [&](int64_t n, int64_t m) -> std::string {
    const int64_t symbols[] = {n, m};
    try {
      instantiate(*graph, symbols);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message(8, 64) == "");
  CHECK(message(8, 1) == "m = 1 is none of its values");
  CHECK(message(-1, 5) == "n = -1 is none of its values");
  CHECK(message(4, 5) == "the guard n >= 5 is broken");
}
