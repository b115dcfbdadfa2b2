// Joint graphs cut in two: what is saved, what is computed again, and that the parts compute what the whole does.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph_interpreter.h"
#include "ir/text.h"
#include "passes/min_cut.h"
#include "passes/partition.h"
#include "random_graph.h"
#include "support/error.h"

using namespace braze;

namespace {

/// The backward begins with the first node that reads a tangent; the first output is the only result, unless
/// `results` says otherwise.
struct Cut {
  std::unique_ptr<ir::Graph> joint;
  passes::Partition parts;

  explicit Cut(std::string_view text, uint32_t results = 1) : joint(ir::parse(text)) {
    const auto& inputs = joint->inputs();
    const auto is_tangent = [](const ir::Input& input) { return input.name.starts_with("tangent"); };
    const auto tangent = std::ranges::find_if(inputs, is_tangent);
    const ir::Node* node = joint->first();
    const auto reads_tangent = [&](const ir::Node* one) {
      return std::ranges::any_of(one->operands, [&](const ir::Value* operand) {
        return std::any_of(tangent, inputs.end(), [&](const ir::Input& input) { return input.value == operand; });
      });
    };
    while (node && !reads_tangent(node)) node = node->next;
    parts = passes::partition({joint.get(), node, static_cast<uint32_t>(tangent - inputs.begin()), results});
    ir::verify(*parts.forward);
    ir::verify(*parts.backward);
  }
  std::string forward() const { return ir::print(*parts.forward); }
  std::string backward() const { return ir::print(*parts.backward); }
};

}  // namespace

TEST_CASE("a matrix product saves its operands, which are inputs") {
  const Cut cut(R"(graph @linear(%x: f32[8,4], %w: f32[4,2] param, %tangent0: f32[8,2]) {
  %0 = mm %x, %w : f32[8,2]
  %1 = permute %w, dims=[1,0] : f32[2,4]{1,2}
  %2 = mm %tangent0, %1 : f32[8,4]
  %3 = permute %x, dims=[1,0] : f32[4,8]{1,4}
  %4 = mm %3, %tangent0 : f32[4,2]
  return %0, %2, %4
}
)");
  CHECK(cut.forward() == R"(graph @linear(%x: f32[8,4], %w: f32[4,2] param) {
  %0 = mm %x, %w : f32[8,2]
  %1 = permute %w, dims=[1,0] : f32[2,4]{1,2}
  return %0
}
)");
  CHECK(cut.backward() == R"(graph @linear_backward(%saved0: f32[8,4], %saved1: f32[4,2], %tangent0: f32[8,2]) {
  %0 = permute %saved1, dims=[1,0] : f32[2,4]{1,2}
  %1 = mm %tangent0, %0 : f32[8,4]
  %2 = permute %saved0, dims=[1,0] : f32[4,8]{1,4}
  %3 = mm %2, %tangent0 : f32[4,2]
  return %1, %3
}
)");
  CHECK(cut.parts.saved_bytes == 0);
}

TEST_CASE("an input that is read again in the memory of the forward is saved twice") {
  // Eager saves w, and a view of it.
  constexpr std::string_view text = R"(graph @twice(%x: f32[64,64], %w: f32[64,64], %tangent0: f32[64,64]) {
  %0 = permute %w, dims=[1,0] : f32[64,64]{1,64}
  %1 = mul %x, %0 : f32[64,64]
  %2 = mul %1, %w : f32[64,64]
  %3 = mul %tangent0, %w : f32[64,64]
  %4 = mul %3, %0 : f32[64,64]
  return %2, %3, %4
}
)";
  const Cut cut(text);
  using Kind = passes::Saved::Kind;
  const auto is = [&](size_t k, Kind kind, uint32_t index) {
    return cut.parts.saved.at(k).kind == kind && cut.parts.saved.at(k).index == index;
  };
  REQUIRE(cut.parts.saved.size() == 2);
  CHECK((is(0, Kind::held, 1) && is(1, Kind::input, 1)));
  CHECK(passes::saved_twice(cut.parts.saved)[0] == 1);
  CHECK(cut.backward() ==
        R"(graph @twice_backward(%saved0: f32[64,64], %saved1: f32[64,64], %tangent0: f32[64,64]) {
  %0 = mul %tangent0, %saved1 : f32[64,64]
  %1 = permute %saved0, dims=[1,0] : f32[64,64]{1,64}
  %2 = mul %0, %1 : f32[64,64]
  return %0, %2
}
)");
}

TEST_CASE("sums of residuals that are read late are not all made at the beginning of the backward") {
  // x1 = mm(x, w), x[k+1] = x[k] + cast(mm(cos(x[k]), w)): each step's backward reads sin(x[k]), the last one's
  // first.
  constexpr int layers = 12;
  std::string text =
      "graph @chain(%x: f32[64,64], %w: f32[64,64] param, %tangent0: f32[64,64]) {\n"
      "  %x1 = mm %x, %w : f32[64,64]\n";
  for (int k = 1; k <= layers; ++k)
    text += concat("  %c", k, " = cos %x", k, " : f32[64,64]\n  %p", k, " = mm %c", k, ", %w : f32[64,64]\n  %h", k,
                   " = cast %p", k, " : bf16[64,64]\n  %o", k, " = cast %h", k, " : f32[64,64]\n  %x", k + 1,
                   " = add %x", k, ", %o", k, " : f32[64,64]\n");
  std::string gradient = "tangent0";
  for (int k = layers; k >= 1; --k) {
    text += concat("  %m", k, " = mm %", gradient, ", %w : f32[64,64]\n  %s", k, " = sin %x", k,
                   " : f32[64,64]\n  %n", k, " = mul %m", k, ", %s", k, " : f32[64,64]\n  %g", k, " = sub %",
                   gradient, ", %n", k, " : f32[64,64]\n");
    gradient = concat("g", k);
  }
  const Cut cut(concat(text, "  return %x", layers + 1, ", %", gradient, "\n}\n"));
  // Some of the sums, of four bytes an element, and between them the halves that were added.
  std::vector<ir::DType> saved;
  for (const passes::Saved& one : cut.parts.saved)
    if (one.kind == passes::Saved::Kind::output)
      saved.push_back(cut.parts.forward->outputs()[one.index]->type->dtype);
  const auto sums = std::ranges::count(saved, ir::DType::f32);
  CHECK(sums > 2);
  CHECK(std::ranges::count(saved, ir::DType::bf16) >= layers - 1 - sums);
  CHECK(cut.parts.saved_bytes < int64_t{layers} * 64 * 64 * 4);
}

TEST_CASE("nothing is computed again of an input, or of a result that eager saves") {
  const std::unique_ptr<ir::Graph> joint =
      ir::parse(R"(graph @exposed(%x: f32[64,64], %w: f32[64] param, %tangent0: f32[64,64]) {
  %0 = mul %x, %w : f32[64,64]
  %1 = mul %0, %0 : f32[64,64]
  %2 = mul %tangent0, %0 : f32[64,64]
  %3 = mul %2, %w : f32[64,64]
  %4 = mul %2, %x : f32[64,64]
  return %1, %3, %4
}
)");
  const ir::Node* const first_backward = joint->last()->previous->previous;
  const auto saved = [&](uint32_t results) {
    std::vector<passes::Saved::Kind> kinds;
    for (const passes::Saved& one : passes::partition({joint.get(), first_backward, 2, results}).saved)
      kinds.push_back(one.kind);
    return kinds;
  };
  using Kind = passes::Saved::Kind;
  CHECK(saved(1) == std::vector{Kind::input, Kind::input, Kind::output});
  joint->outputs().insert(joint->outputs().begin(), joint->first()->result());
  CHECK(saved(2) == std::vector{Kind::input, Kind::input, Kind::output});
}

TEST_CASE("of a chain of elementwise work one value is saved") {
  // Eager saves both sigmoids and the product's operands.
  const Cut cut(R"(graph @chain(%x: f32[64,64] param, %w: f32[64,64] param, %tangent0: f32[64,64]) {
  %0 = mm %x, %w : f32[64,64]
  %1 = sigmoid %0 : f32[64,64]
  %2 = tanh %1 : f32[64,64]
  %3 = mul %1, %2 : f32[64,64]
  %4 = mul %tangent0, %1 : f32[64,64]
  %5 = mul %tangent0, %2 : f32[64,64]
  %6 = mul %4, %2 : f32[64,64]
  %7 = add %6, %5 : f32[64,64]
  return %3, %7
}
)");
  CHECK(cut.parts.saved_bytes == 64 * 64 * 4);
  CHECK(cut.parts.direct_bytes == 2 * 64 * 64 * 4);
  CHECK(cut.backward() == R"(graph @chain_backward(%saved0: f32[64,64], %tangent0: f32[64,64]) {
  %0 = mul %tangent0, %saved0 : f32[64,64]
  %1 = tanh %saved0 : f32[64,64]
  %2 = mul %tangent0, %1 : f32[64,64]
  %3 = mul %0, %1 : f32[64,64]
  %4 = add %3, %2 : f32[64,64]
  return %4
}
)");
}

TEST_CASE("products, random numbers and reductions are saved, a mask of bytes rather than what it is made of") {
  const Cut cut(R"(graph @dropout(%x: f32[64,64], %tangent0: f32[64,64]) {
  %0 = call %x target="aten::bernoulli" arguments="$0, none" effect=true : f32[64,64]
  %1 = scalar value=0.5 : f32[]
  %2 = lt %0, %1 : bool[64,64]
  %3 = where %2, %x, %1 : f32[64,64]
  %4 = where %2, %tangent0, %1 : f32[64,64]
  return %3, %4
}
)");
  CHECK(cut.parts.saved_bytes == 64 * 64);
  CHECK(cut.parts.saved.size() == 1);
}

TEST_CASE("what a product reads in the backward is saved, not computed again for it") {
  const Cut cut(R"(graph @mlp(%x: f32[8,4], %w: f32[4,4] param, %v: f32[4,4] param, %tangent0: f32[8,4]) {
  %0 = mm %x, %w : f32[8,4]
  %1 = tanh %0 : f32[8,4]
  %2 = mm %1, %v : f32[8,4]
  %3 = permute %1, dims=[1,0] : f32[4,8]{1,4}
  %4 = mm %3, %tangent0 : f32[4,4]
  %5 = permute %v, dims=[1,0] : f32[4,4]{1,4}
  %6 = mm %tangent0, %5 : f32[8,4]
  %7 = mul %1, %1 : f32[8,4]
  %8 = mul %6, %7 : f32[8,4]
  return %2, %4, %8
}
)");
  CHECK(cut.parts.saved_bytes == 8 * 4 * 4);
  CHECK(cut.backward().find("tanh") == std::string::npos);
}

TEST_CASE("an input that eager does not save is not relied on") {
  // sigmoid saves its result: %x may be written to in between.
  const Cut cut(R"(graph @sigmoid(%x: f32[64,64], %tangent0: f32[64,64]) {
  %0 = neg %x : f32[64,64]
  %1 = sigmoid %0 : f32[64,64]
  %2 = relu %1 : f32[64,64]
  %3 = mul %tangent0, %1 : f32[64,64]
  return %2, %3
}
)");
  REQUIRE(cut.parts.saved.size() == 1);
  CHECK(cut.parts.saved[0].kind == passes::Saved::Kind::output);
}

TEST_CASE("nor is a result of the user's, or an input that is written") {
  const Cut shown(R"(graph @shown(%x: f32[64,64], %tangent0: f32[64,64]) {
  %0 = exp %x : f32[64,64]
  %1 = neg %0 : f32[64,64]
  %2 = exp2 %1 : f32[64,64]
  %3 = mul %tangent0, %2 : f32[64,64]
  return %0, %1, %3
}
)",
                  2);
  REQUIRE(shown.parts.saved.size() == 1);
  CHECK(shown.parts.saved[0].index == 2);

  const Cut written(R"(graph @written(%x: f32[64,64], %tangent0: f32[64,64]) {
  %0 = neg %x : f32[64,64]
  %1 = mul %tangent0, %0 : f32[64,64]
  mutate %x, %0
  return %0, %1
}
)");
  REQUIRE(written.parts.saved.size() == 1);
  CHECK(written.parts.saved[0].kind == passes::Saved::Kind::written);
  CHECK(written.parts.saved[0].index == 0);
}

TEST_CASE("what an input held before it is written is copied") {
  const Cut cut(R"(graph @clamp(%x: f32[4], %tangent0: f32[4]) {
  %0 = relu %x : f32[4]
  %1 = mul %tangent0, %x : f32[4]
  mutate %x, %0
  return %0, %1
}
)");
  REQUIRE(cut.parts.saved.size() == 1);
  CHECK(cut.parts.saved[0].kind == passes::Saved::Kind::output);
  CHECK(cut.parts.forward->outputs()[cut.parts.saved[0].index] == cut.parts.forward->inputs()[0].value);
}

TEST_CASE("a saved result is the output that is there already") {
  const Cut cut(R"(graph @exp(%x: f32[4], %tangent0: f32[4]) {
  %0 = exp %x : f32[4]
  %1 = mul %tangent0, %0 : f32[4]
  return %0, %1
}
)");
  CHECK(cut.parts.forward->outputs().size() == 1);
  CHECK(cut.parts.saved[0].index == 0);
}

TEST_CASE("a backward that draws random numbers is refused") {
  CHECK_THROWS_AS(Cut(R"(graph @random(%x: f32[4], %tangent0: f32[4]) {
  %0 = exp %x : f32[4]
  %1 = mul %tangent0, %0 : f32[4]
  %2 = call %1 target="aten::bernoulli" arguments="$0, none" effect=true : f32[4]
  return %0, %2
}
)"),
                  UserError);
}

TEST_CASE("gradients that are tangents, and no backward at all") {
  const Cut cut(R"(graph @same(%x: f32[4], %tangent0: f32[4]) {
  %0 = neg %x : f32[4]
  return %0, %tangent0
}
)");
  CHECK(cut.backward() == R"(graph @same_backward(%tangent0: f32[4]) {
  return %tangent0
}
)");
}

TEST_CASE("random graphs, cut anywhere, compute the same in two parts") {
  size_t cuts = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const test::RandomGraph random(seed);
    ir::Graph& joint = *random.graph();
    if (!test::can_interpret(joint)) continue;
    std::vector<test::Elements> inputs;
    for (const ir::Input& input : joint.inputs()) {
      test::Elements& elements = inputs.emplace_back();
      for (int64_t k = 0; k < input.value->type->numel(); ++k)
        elements.push_back(0.25 * static_cast<double>((k * 7 + seed) % 9) - 1.0);
    }
    const std::vector<ir::Value*> outputs = joint.outputs();
    std::vector<bool> before(joint.value_limit());
    for (const ir::Input& input : joint.inputs()) before[input.value->id] = true;
    for (const ir::Node* node = joint.first(); node; node = node->next) {
      joint.outputs() = outputs;
      const auto gradients =
          std::ranges::stable_partition(joint.outputs(), [&](const ir::Value* value) { return before[value->id]; });
      const auto results = static_cast<uint32_t>(gradients.begin() - joint.outputs().begin());
      const std::vector<test::Elements> expected = test::interpret(joint, inputs);
      const passes::Partition parts =
          passes::partition({&joint, node, static_cast<uint32_t>(joint.inputs().size()), results});
      ir::verify(*parts.forward);
      ir::verify(*parts.backward);
      const std::vector<test::Elements> forward = test::interpret(*parts.forward, inputs);
      std::vector<test::Elements> saved;
      for (const passes::Saved& one : parts.saved)
        saved.push_back(one.kind == passes::Saved::Kind::output ? forward[one.index] : inputs[one.index]);
      const std::vector<test::Elements> backward = test::interpret(*parts.backward, saved);
      const auto same = [](const test::Elements& a, const test::Elements& b) {
        return std::ranges::equal(a, b, [](double x, double y) { return x == y || (x != x && y != y); });
      };
      for (size_t k = 0; k < results; ++k) CHECK(same(forward[k], expected[k]));
      for (size_t k = results; k < expected.size(); ++k) CHECK(same(backward[k - results], expected[k]));
      CHECK(parts.saved_bytes <= parts.direct_bytes);
      for (const ir::Value& result : node->results) before[result.id] = true;
      ++cuts;
    }
    joint.outputs() = outputs;
  }
  CHECK(cuts > 500);
}

TEST_CASE("a cheapest cut, the one nearest to the sink") {
  // 0 -> 1 -> 2 -> 3, and 0 -> 3: cutting 3 costs as much as cutting 1 and 0.
  const int64_t costs[] = {2, 3, 7, 5};
  passes::MinCut cut(costs);
  cut.connect_source(0);
  cut.connect_source(1);
  cut.connect(1, 2);
  cut.connect(2, 3);
  cut.connect(0, 3);
  cut.connect_sink(3);
  CHECK(cut.run() == std::vector<bool>{false, false, false, true});
}
