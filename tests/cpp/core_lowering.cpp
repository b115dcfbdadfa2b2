// Lowering: graphs go through the passes and are lowered; the kernels verify, survive a print and a parse, and,
// interpreted over the planned memory, give what the graph says. Fused and not, memory shared and not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph_interpreter.h"
#include "interpret.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "lowering_cases.h"
#include "passes/pipeline.h"
#include "plan_interpreter.h"
#include "random_graph.h"
#include "support/error.h"

using namespace braze;
using test::difference;
using test::Elements;
using test::is_known;
using test::random_elements;
using test::RandomGraph;
using test::small_gpu;

namespace {

std::shared_ptr<ir::Graph> prepared(const std::string& text) {
  std::shared_ptr<ir::Graph> graph = ir::parse(text);
  ir::verify(*graph);
  passes::run(*graph, nullptr, true);
  return graph;
}

/// Lowers a graph in all ways; says what is wrong with the kernels or their results, or "".
std::string fault(const std::string& text, double tolerance, uint32_t seed) {
  const auto original = ir::parse(text);
  const auto graph = prepared(text);
  std::mt19937 random(seed);
  std::vector<Elements> inputs, wanted;
  for (const ir::Input& input : graph->inputs()) inputs.push_back(random_elements(*input.value->type, random));
  if (is_known(*original)) wanted = test::interpret(*original, inputs);
  static const Target gpus[] = {Isa::sm_90, small_gpu()};
  for (const loops::LoweringOptions& options :
       {loops::LoweringOptions{false, false}, loops::LoweringOptions{false, true},
        loops::LoweringOptions{true, false}, loops::LoweringOptions{true, true},
        loops::LoweringOptions{true, true, std::vector<bool>(inputs.size(), true)},
        loops::LoweringOptions{.targets = {&gpus[0]}}, loops::LoweringOptions{.targets = {&gpus[1]}}}) {
    std::string how =
        concat(options.targets.cpu->name(), options.fuse ? ", fused" : ", not fused",
               options.reuse_memory ? ", memory reused" : "", options.writable.empty() ? ": " : ", in place: ");
    try {
      const loops::Plan plan = loops::lower(*graph, options);
      const std::string text = loops::print(plan);
      how = concat(text, how);
      loops::verify(plan);
      const loops::Plan again = loops::parse_plan(text);
      loops::verify(again);
      if (loops::print(again) != text) return how + "the plan changed by text";
      if (again.kernel_hashes != plan.kernel_hashes) return how + "hash changed by text";
      const auto found = test::run(again, inputs);
      // What the graph's interpreter does not know: fused and unfused must agree.
      if (wanted.empty()) wanted = found;
      const std::string differs = difference(found, wanted, tolerance);
      if (!differs.empty()) return how + differs;
    } catch (const std::exception& error) {
      return how + error.what();
    }
  }
  return "";
}

}  // namespace

TEST_CASE("lowered graphs compute what the graph says") {
  for (const test::LoweringCase& c : test::lowering_cases) {
    CAPTURE(std::string(c.name));
    const std::string wrong = fault(c.text, c.tolerance, 7);
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}

TEST_CASE("random graphs compute what they say") {
  for (uint32_t seed = 0; seed < 2500; ++seed) {
    const std::string text = ir::print(*RandomGraph(seed).graph());
    const std::string wrong = fault(text, 1e-3, seed);
    REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, "\n", text, "\n", wrong);
  }
}
