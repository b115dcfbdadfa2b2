// Backward graphs for some of their tangents and gradients.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "passes/partial_backward.h"

using namespace braze;

namespace {

Bits bits(size_t size, std::initializer_list<size_t> members) {
  Bits set(size);
  for (const size_t member : members) set.set(member);
  return set;
}

struct Partial {
  std::unique_ptr<ir::Graph> whole;
  passes::PartialBackward part;

  Partial(std::string_view text, size_t first_tangent, size_t tangents, std::initializer_list<size_t> defined,
          std::initializer_list<size_t> wanted)
      : whole(ir::parse(text)),
        part(passes::partial_backward({whole.get(), first_tangent, tangents}, bits(tangents, defined),
                                      bits(whole->outputs().size(), wanted))) {
    ir::verify(*part.graph);
  }
  std::string text() const { return ir::print(*part.graph); }
};

using Kind = passes::PartialBackward::Gradient::Kind;

constexpr std::string_view two = R"(graph @two(%saved0: f32[8], %tangent0: f32[8], %tangent1: f32[8]) {
  %0 = rsqrt %saved0 : f32[8]
  %1 = mul %tangent0, %0 : f32[8]
  %2 = scalar value=2.0 : f32[]
  %3 = mul %tangent1, %2 : f32[8]
  %4 = add %1, %3 : f32[8]
  return %4, %1
}
)";

}  // namespace

TEST_CASE("what depends on undefined tangents alone adds nothing") {
  const Partial partial(two, 1, 2, {1}, {0, 1});
  CHECK(partial.text() == R"(graph @two(%tangent1: f32[8]) {
  %0 = scalar value=2.0 : f32[]
  %1 = mul %tangent1, %0 : f32[8]
  return %1
}
)");
  CHECK(partial.part.inputs == std::vector<uint32_t>{2});
  CHECK(partial.part.gradients[0].kind == Kind::output);
  CHECK(partial.part.gradients[1].kind == Kind::none);
}

TEST_CASE("two gradients that become one are one output") {
  const Partial partial(two, 1, 2, {0}, {0, 1});
  CHECK(partial.part.inputs == std::vector<uint32_t>{0, 1});
  CHECK(partial.part.graph->outputs().size() == 1);
  CHECK(partial.part.gradients[0].index == partial.part.gradients[1].index);
}

TEST_CASE("a gradient that nobody wants is not computed") {
  const Partial partial(two, 1, 2, {0, 1}, {1});
  CHECK(partial.part.inputs == std::vector<uint32_t>{0, 1});
  CHECK(partial.part.gradients[0].kind == Kind::none);
}

TEST_CASE("a sum of one tangent is that tangent, and from zero it is subtracted") {
  constexpr std::string_view sums = R"(graph @sums(%tangent0: f32[4], %tangent1: f32[4]) {
  %0 = sub %tangent0, %tangent1 : f32[4]
  return %0
}
)";
  const Partial first(sums, 0, 2, {0}, {0});
  CHECK(first.part.gradients[0].kind == Kind::tangent);
  CHECK(first.part.gradients[0].index == 0);
  CHECK(first.part.graph->outputs().empty());
  const Partial second(sums, 0, 2, {1}, {0});
  CHECK(second.text() == R"(graph @sums(%tangent1: f32[4]) {
  %0 = neg %tangent1 : f32[4]
  return %0
}
)");
}

TEST_CASE("beside others in one operator it is zeros") {
  const Partial partial(R"(graph @cat[n = 4](%tangent0: f32[n], %tangent1: f32[n]) {
  %0 = cat %tangent0, %tangent1, dim=0 : f32[2*n]
  return %0
}
)",
                        0, 2, {1}, {0});
  CHECK(partial.text() == R"(graph @cat[n = 4](%tangent1: f32[n]) {
  %0 = scalar value=0.0 : f32[]
  %1 = expand %0 : f32[n]{0}
  %2 = cast %1 : f32[n]
  %3 = cat %2, %tangent1, dim=0 : f32[2*n]
  return %3
}
)");
}

TEST_CASE("where a sum is left out the gradient is laid out as it was") {
  const Partial partial(R"(graph @layout(%tangent0: f32[2,3], %tangent1: f32[3,2]) {
  %0 = permute %tangent1, dims=[1,0] : f32[2,3]{1,2}
  %1 = add %tangent0, %0 : f32[2,3]
  return %1
}
)",
                        0, 2, {1}, {0});
  CHECK(partial.text() == R"(graph @layout(%tangent1: f32[3,2]) {
  %0 = permute %tangent1, dims=[1,0] : f32[2,3]{1,2}
  %1 = cast %0 : f32[2,3]
  return %1
}
)");
}

TEST_CASE("a call reads what is left of a sum laid out as the sum was") {
  const Partial partial(R"(graph @call(%tangent0: f32[2,3]{1,2}, %tangent1: f32[2,3]) {
  %0 = neg %tangent1 : f32[2,3]
  %1 = add %tangent0, %0 : f32[2,3]{1,2}
  %2 = call %1, target="aten::cos" arguments="$0" : f32[2,3]{1,2}
  return %2
}
)",
                        0, 2, {1}, {0});
  CHECK(partial.text() == R"(graph @call(%tangent1: f32[2,3]) {
  %0 = neg %tangent1 : f32[2,3]
  %1 = cast %0 : f32[2,3]{1,2}
  %2 = call %1, target="aten::cos" arguments="$0" : f32[2,3]{1,2}
  return %2
}
)");
}

TEST_CASE("what is saved is read where it meets a tangent") {
  const auto graph = ir::parse(two);
  const auto readers = passes::backward_readers({graph.get(), 1, 2});
  REQUIRE(readers.size() == 1);
  CHECK(readers[0].tangents == bits(2, {0}));
  CHECK(readers[0].gradients == bits(2, {0, 1}));
  CHECK(readers[0].saved == bits(1, {0}));
}

TEST_CASE("a backward that is parted where a tangent and what comes from another one meet") {
  const std::unique_ptr<ir::Graph> whole = ir::parse(
      R"(graph @inner(%saved0: f32[8], %saved1: f32[8], %tangent0: f32[8], %tangent1: f32[8]) {
  %0 = mul %tangent1, %saved1 : f32[8]
  %1 = add %tangent0, %0 : f32[8]
  %2 = mul %1, %saved0 : f32[8]
  return %2, %1
}
)");
  const std::vector<passes::Inner> inner{{0, 1}};
  const passes::Parted parted = passes::part_at({whole.get(), 2, 2}, inner);
  ir::verify(*parted.graph);
  const auto part = [&](std::initializer_list<size_t> tangents, std::initializer_list<size_t> wanted) {
    return ir::print(*passes::partial_backward(parted.backward, bits(2, tangents), bits(2, wanted)).graph);
  };
  CHECK(part({1}, {0, 1}) == R"(graph @inner(%saved1: f32[8], %tangent1: f32[8]) {
  %0 = mul %tangent1, %saved1 : f32[8]
  return %0
}
)");
  CHECK(part({0, 1}, {0}) == R"(graph @inner(%saved0: f32[8], %tangent0: f32[8]) {
  %0 = mul %tangent0, %saved0 : f32[8]
  return %0
}
)");
  const std::vector<passes::BackwardReaders> readers = passes::backward_readers(parted.backward);
  REQUIRE(readers.size() == 2);
  for (const passes::BackwardReaders& one : readers) {
    const size_t which = one.tangents[0] ? 0 : 1;
    CHECK(one.tangents == bits(2, {which}));
    CHECK(one.gradients == bits(2, {which}));
    CHECK(one.saved == bits(2, {which}));
  }
}

TEST_CASE("a backward that is parted where nothing is given, and goes on outside") {
  const std::unique_ptr<ir::Graph> whole = ir::parse(R"(graph @view(%tangent0: f32[8]) {
  %0 = neg %tangent0 : f32[8]
  %1 = exp %tangent0 : f32[8]
  %2 = add %0, %1 : f32[8]
  return %2, %0
}
)");
  const std::vector<passes::Inner> inner{{std::nullopt, 1}};
  const passes::Parted parted = passes::part_at({whole.get(), 0, 1}, inner);
  const passes::PartialBackward part = passes::partial_backward(parted.backward, bits(1, {0}), bits(2, {0, 1}));
  CHECK(ir::print(*part.graph) == R"(graph @view(%tangent0: f32[8]) {
  %0 = neg %tangent0 : f32[8]
  %1 = exp %tangent0 : f32[8]
  return %1, %0
}
)");
}
