// Kernels that differ in sizes alone, made one: what they compute, by walking them and as machine code, is what
// those of each size did. The cases of the lowering tests, each at several sizes in one graph.
#include <doctest/doctest.h>

#include <random>

#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "loops/alike.h"
#include "lowering_cases.h"
#include "passes/pipeline.h"
#include "sized_runs.h"
#include "support/error.h"
#include "symbolise.h"

using namespace braze;
using test::Elements;

namespace {

/// `of` beside each other in one graph.
std::string side_by_side(const std::vector<std::unique_ptr<ir::Graph>>& of) {
  std::string inputs, nodes, mutations, results;
  for (size_t g = 0; g < of.size(); ++g) {
    std::string text = ir::print(*of[g]);
    for (size_t at = 0; (at = text.find('%', at)) != std::string::npos; ++at)
      if (std::isalnum(static_cast<unsigned char>(text[at + 1]))) text.insert(at + 1, concat("p", g, "_"));
    const size_t open = text.find('('), body = text.find(") {\n"), end = text.rfind("  return");
    if (open + 1 < body) inputs += (inputs.empty() ? "" : ", ") + text.substr(open + 1, body - open - 1);
    const size_t written = std::min(end, text.find("  mutate ", body));
    nodes += text.substr(body + 4, written - body - 4);
    mutations += text.substr(written, end - written);
    const size_t last = text.find('\n', end), first = std::min(end + 9, last);
    results += (results.empty() ? "" : ", ") + text.substr(first, last - first);
  }
  return concat("graph @several(", inputs, ") {\n", nodes, mutations, "  return ", results, "\n}\n");
}

struct Counts {
  size_t kernels = 0, kept = 0, runs = 0;
};

std::vector<Elements> run_code(const loops::Plan& plan, const std::vector<Elements>& inputs, const Target& target) {
  std::vector<const loops::Kernel*> kernels;
  for (const auto& kernel : plan.kernels) kernels.push_back(kernel.get());
  codegen::CompileOptions options{.target = target, .use_disk_cache = false, .threads = 1};
  const auto code = codegen::compile(kernels, plan.kernel_hashes, options);
  return test::run(
      plan, inputs,
      [&](const loops::KernelStep& step, std::span<const test::Memory> memory, const uint64_t* scalars) {
        return test::launch(*code[step.kernel], step, memory, scalars);
      });
}

/// Says what is wrong, or "".
std::string fault(const std::string& text, double tolerance, Counts& counts) {
  const auto graph = ir::parse(text);
  passes::run(*graph, nullptr, true);
  std::mt19937 random(7);
  std::vector<Elements> inputs;
  for (const ir::Input& input : graph->inputs())
    inputs.push_back(test::random_elements(*input.value->type, random));
  for (const Target& target : {Target(Isa::avx2), Target(Isa::avx512), test::small_cpu()}) {
    const loops::Plan apart = loops::lower(*graph, {.targets = {&target}});
    loops::Plan shared = loops::lower(*graph, {.targets = {&target}});
    loops::share_alike_kernels(shared);
    try {
      for (const auto& kernel : shared.kernels) loops::verify(*kernel);
      const std::string printed = loops::print(shared);
      shared = loops::parse_plan(printed);
      loops::verify(shared);
      if (loops::print(shared) != printed) return printed + "changed by text";
      counts.kernels += apart.kernels.size();
      counts.kept += shared.kernels.size();
      const auto wanted = test::run(apart, inputs);
      std::string differs = test::difference(test::run(shared, inputs), wanted, 0);
      if (differs.empty() && test::host_has(target.isa))
        differs = test::difference(run_code(shared, inputs, target), wanted, tolerance);
      if (!differs.empty()) return printed + concat(target.name(), ": ", differs);
      ++counts.runs;
    } catch (const std::exception& error) {
      return loops::print(shared) + error.what();
    }
  }
  return "";
}

/// The graph at sizes that kernels may share, with and without rests; nothing where it has no such sizes.
std::string at_several_sizes(const ir::Graph& numbers, int64_t step) {
  const auto family = test::symbolise(numbers);
  const ir::ShapeEnv* env = family->find_shape_env();
  if (!env) return "";
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  for (int64_t k = 1; k <= 3; ++k) {
    std::vector<int64_t> values;
    for (size_t s = 0; s < env->examples().size(); ++s)
      values.push_back(s % 2 == 0 ? k * step : 4 + 3 * k + static_cast<int64_t>(s));
    graphs.push_back(ir::instantiate(*family, values));
    int64_t elements = 0;
    for (const ir::Input& input : graphs.back()->inputs()) elements += input.value->type->numel();
    if (!test::are_apart(*graphs.back()) || elements > 100000) return "";
  }
  return side_by_side(graphs);
}

}  // namespace

TEST_CASE("kernels that differ in sizes alone compute as one what each did") {
  Counts counts;
  for (const test::LoweringCase& c : test::lowering_cases) {
    const auto numbers = ir::parse(c.text);
    if (!test::is_known(*numbers)) continue;
    CAPTURE(std::string(c.name));
    for (const int64_t step : {5, 16, 32}) {
      std::string text;
      try {
        text = at_several_sizes(*numbers, step);
      } catch (const std::exception&) {
        continue;  // sizes that the graph cannot have
      }
      if (text.empty()) continue;
      const std::string wrong = fault(text, std::max(c.tolerance, 1e-3), counts);
      CHECK_MESSAGE(wrong.empty(), text, wrong);
    }
  }
  MESSAGE(counts.kernels, " kernels became ", counts.kept, " in ", counts.runs, " plans");
  CHECK(counts.runs > 300);
  CHECK(4 * counts.kept < 3 * counts.kernels);
}
