// What graphs compute on a GPU is what their interpreter says: the cases of the lowering tests, and random graphs.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu_device.h"
#include "ir/instantiate.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "loops/symbolic_plan.h"
#include "lowering_cases.h"
#include "passes/pipeline.h"
#include "random_graph.h"
#include "random_symbolic_graph.h"
#include "support/error.h"
#include "test_files.h"

using namespace braze;
using test::Elements;

namespace {

/// A graph lowered in one way, and what it must compute.
struct Trial {
  std::string name;
  double tolerance;
  loops::Plan plan;
  std::vector<Elements> inputs, wanted;
  std::vector<std::shared_ptr<const codegen::CompiledKernel>> code;
};

/// Some update replaces what was there, and others may meet it: on CUDA, braze and eager alike, any of them may be
/// last.
bool leaves_order_open(const ir::Graph& graph) {
  bool found = false;
  ir::for_each_node(graph, [&](const ir::Node* node) {
    const bool updates = node->op == ir::Op::scatter || node->op == ir::Op::index_put;
    found = found || (updates && node->text_attr("combine") == "set");
  });
  return found;
}

void add_trials(const std::string& name, const std::string& text, double tolerance, uint32_t seed,
                std::vector<Trial>& trials) {
  static const Target gpus[] = {Isa::sm_90, test::small_gpu()};
  const auto original = ir::parse(text);
  if (leaves_order_open(*original)) return;
  std::shared_ptr<ir::Graph> graph = ir::parse(text);
  passes::run(*graph);
  std::mt19937 random(seed);
  std::vector<Elements> inputs, wanted;
  for (const ir::Input& input : graph->inputs())
    inputs.push_back(test::random_elements(*input.value->type, random));
  if (test::is_known(*original)) wanted = test::interpret(*original, inputs);
  for (const loops::LoweringOptions& options :
       {loops::LoweringOptions{.targets = {&gpus[0]}}, loops::LoweringOptions{.fuse = false, .targets = {&gpus[0]}},
        loops::LoweringOptions{.targets = {&gpus[1]}}}) {
    Trial trial{concat(name, options.fuse ? ", fused" : ", not fused",
                       options.targets.cpu == &gpus[1] ? ", for a small GPU" : ""),
                tolerance,
                loops::lower(*graph, options),
                inputs,
                wanted,
                {}};
    if (trial.wanted.empty()) trial.wanted = test::run(trial.plan, inputs);
    trials.push_back(std::move(trial));
  }
}

void check(std::vector<Trial>& trials) {
  std::vector<const loops::Kernel*> kernels;
  std::vector<Hash128> hashes;
  for (const Trial& trial : trials)
    for (size_t k = 0; k < trial.plan.kernels.size(); ++k) {
      kernels.push_back(trial.plan.kernels[k].get());
      hashes.push_back(trial.plan.kernel_hashes[k]);
    }
  codegen::CompileOptions options;
  options.target = Target(Isa::sm_90);
  options.use_disk_cache = false;
  const auto code = codegen::compile(kernels, hashes, options);
  size_t next = 0;
  for (Trial& trial : trials) {
    trial.code.assign(code.begin() + static_cast<ptrdiff_t>(next),
                      code.begin() + static_cast<ptrdiff_t>(next + trial.plan.kernels.size()));
    next += trial.code.size();
    // Every other trial runs on memory that is aligned no better than its elements.
    const auto number = static_cast<size_t>(&trial - trials.data());
    CAPTURE(trial.name);
    std::string wrong;
    try {
      const auto found = test::run(
          trial.plan, trial.inputs,
          [&](const loops::KernelStep& step, std::span<const test::Memory> memory, const uint64_t* scalars) {
            return test::launch_with_copies(*trial.plan.kernels[step.kernel], *trial.code[step.kernel], memory,
                                            scalars, step.symbols.data(), number % 16 == 15);
          });
      wrong = test::difference(found, trial.wanted, trial.tolerance);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    CHECK_MESSAGE(wrong.empty(), wrong, "\n", loops::print(trial.plan));
    // After an illegal access nothing runs any more in this process.
    REQUIRE(wrong.find("error 7") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("cases of the lowering tests run on a GPU") {
  NEEDS_GPU();
  std::vector<Trial> trials;
  for (const test::LoweringCase& c : test::lowering_cases) add_trials(c.name, c.text, c.tolerance, 7, trials);
  check(trials);
}

TEST_CASE("graphs of symbols are one set of kernels for all sizes on a GPU") {
  NEEDS_GPU();
  static const Target gpus[] = {Isa::sm_90, test::small_gpu()};
  std::vector<Trial> trials;
  std::vector<std::string> texts;
  for (const auto& path : test::files_in("symbolic", ".graph"))
    texts.push_back(test::without_comments(test::read_file(path)));
  for (uint32_t seed = 0; seed < 40; ++seed)
    texts.push_back(ir::print(test::RandomSymbolicGraph(seed, seed % 2 == 0).graph()));
  for (const std::string& text : texts)
    for (const Target& gpu : gpus) {
      const auto original = ir::parse(text), graph = ir::parse(text);
      if (leaves_order_open(*original)) continue;
      passes::run(*graph);
      const loops::SymbolicPlan family = loops::lower_symbolic(*graph, {.targets = {&gpu}});
      const auto examples = graph->shape_env().examples();
      for (const int64_t more : {0, 1, 5, 64}) {
        std::vector<int64_t> values(examples.begin(), examples.end());
        for (int64_t& value : values) value += more;
        if (family.refuses(values)) continue;
        std::mt19937 random(7);
        std::vector<Elements> inputs;
        const loops::Plan plan = family.at(values);
        try {
          const auto of_numbers = ir::instantiate(*graph, values);
          for (const ir::Input& input : of_numbers->inputs())
            inputs.push_back(test::random_elements(*input.value->type, random));
        } catch (const UserError&) {
          continue;
        }
        trials.push_back({concat(text, gpu.name(), " + ", more), 1e-3, plan, inputs, test::run(plan, inputs), {}});
      }
    }
  CHECK(trials.size() > 100);
  check(trials);
}

TEST_CASE("random graphs run on a GPU") {
  NEEDS_GPU();
  const char* asked = std::getenv("BRAZE_RANDOM_GRAPHS");
  const uint32_t count = asked ? static_cast<uint32_t>(std::atoi(asked)) : 200;
  for (uint32_t first = 0; first < count; first += 100) {
    std::vector<Trial> trials;
    for (uint32_t seed = first; seed < std::min(count, first + 100); ++seed) {
      const std::string text = ir::print(*test::RandomGraph(seed).graph());
      add_trials(concat("seed ", seed, "\n", text), text, 1e-3, seed, trials);
    }
    check(trials);
  }
}
