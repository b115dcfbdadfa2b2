#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "ir/text.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"
#include "support/error.h"

using namespace braze;

namespace {

/// Sets a variable of the environment for one test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

const char* const sample = R"(graph @sample(%x: f32[4,8]) {
  %0 = scalar value=1.0 : f32[]
  %1 = mul %x, %0 : f32[4,8]
  %2 = exp %1 : f32[4,8]
  %3 = exp %1 : f32[4,8]
  %4 = add %2, %3 : f32[4,8]
  return %4
}
)";

std::string after_pipeline(const char* text) {
  const auto graph = ir::parse(text);
  passes::run(*graph, nullptr, true);
  return ir::print(*graph);
}

}  // namespace

TEST_CASE("every pass and every group of rules is found by name") {
  for (const passes::Pass& pass : passes::pipeline()) {
    CHECK(passes::find(pass.name));
    CHECK_FALSE(pass.why.empty());
  }
  std::set<std::string_view> names;
  for (const passes::RuleGroup& group : passes::rule_groups()) {
    CHECK(passes::find(group.name));
    for (const passes::Rule& rule : group.rules) {
      CHECK_MESSAGE(names.insert(rule.name).second, rule.name);
      CHECK_MESSAGE(!rule.why.empty(), rule.name);
    }
  }
  CHECK_FALSE(passes::find("no_such_pass"));
}

TEST_CASE("a group that runs alone applies its own rules only") {
  const auto graph = ir::parse(sample);
  passes::find("cast_chains")->run(*graph);
  CHECK(ir::print(*graph) == sample);
  passes::find("simplify")->run(*graph);
  CHECK(ir::print(*graph).find("mul") == std::string::npos);
}

TEST_CASE("running the pipeline twice changes nothing more") {
  const std::string once = after_pipeline(sample);
  CHECK(after_pipeline(once.c_str()) == once);
}

TEST_CASE("passes and groups can be turned off") {
  CHECK(after_pipeline(sample).find("mul") == std::string::npos);
  {
    const Environment off("BRAZE_PASSES_OFF", "constant_folding,simplify");
    CHECK(after_pipeline(sample).find("mul %x") != std::string::npos);
  }
  const Environment off("BRAZE_PASSES_OFF", "cse");
  const std::string text = after_pipeline(sample);
  CHECK(text.find("exp", text.find("exp") + 1) != std::string::npos);
}

TEST_CASE("what is no pass is not turned off in silence") {
  for (const char* variable : {"BRAZE_PASSES_OFF", "BRAZE_PRINT_AFTER"}) {
    const Environment wrong(variable, "nope");
    CHECK_THROWS_WITH_AS(after_pipeline(sample), doctest::Contains("`nope`, which is no pass. They are: "),
                         UserError);
  }
}

TEST_CASE("rewrites can be limited, to bisect") {
  const Environment limit("BRAZE_REWRITES", "0");
  CHECK(after_pipeline(sample).find("mul %x") != std::string::npos);
}

TEST_CASE("every pass has its phase") {
  const auto graph = ir::parse(sample);
  PhaseTimes times;
  passes::run(*graph, &times);
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(times.rows(), [&](const PhaseTimes::Row& row) { return row.name == name; });
  };
  CHECK(has("passes"));
  for (const passes::Pass& pass : passes::pipeline()) CHECK(has("passes/" + std::string(pass.name)));
  CHECK(times.total() > 0);
}

TEST_CASE("nodes that a pass makes have the user's source line") {
  ir::Graph graph;
  const int64_t sizes[] = {4, 8};
  const ir::Type* type = graph.contiguous_type(ir::DType::f32, {}, sizes);
  ir::Value* x = graph.add_input("x", type, ir::InputKind::argument);
  graph.set_source(graph.intern("model.py:12"));
  graph.outputs() = {graph.create(ir::Op::softmax, {x}, {{"dim", int64_t{1}}}, type)};
  graph.set_source(graph.intern("model.py:13"));
  passes::run(graph);
  CHECK(graph.node_count() == 6);
  ir::for_each_node(graph, [](const ir::Node* node) { CHECK(node->source == "model.py:12"); });
  CHECK(graph.source() == "model.py:13");
}

TEST_CASE("many layers come out verified, each cast, mask and scale once") {
  std::string text = "graph @layers(%x: f32[8,16], %keep: bool[8,1], %w: f32[16] param) {\n";
  std::string last = "%x";
  for (int layer = 0; layer < 100; ++layer) {
    const std::string n = std::to_string(layer);
    text += "%one" + n + " = scalar value=1.0 : f32[]\n%k" + n + " = cast %keep : f32[8,1]\n%m" + n +
            " = sub %one" + n + ", %k" + n + " : f32[8,1]\n%a" + n + " = add " + last + ", %m" + n +
            " : f32[8,16]\n%b" + n + ", %mean" + n + ", %rstd" + n + " = layer_norm %a" + n +
            ", %w, rank=1 eps=1e-05 : f32[8,16], f32[8,1], f32[8,1]\n";
    last = "%b" + n;
  }
  text += "return " + last + "\n}";
  const auto graph = ir::parse(text);
  passes::run(*graph, nullptr, true);
  size_t casts = 0, scalars = 0;
  ir::for_each_node(*graph, [&](const ir::Node* node) {
    casts += node->op == ir::Op::cast;
    scalars += node->op == ir::Op::scalar;
  });
  CHECK(casts == 1);
  CHECK(scalars == 4);  // 1, 1/16, eps, and 0, which makes NaN of what overflows
}
