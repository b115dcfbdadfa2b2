// Forms of kernels on a GPU, among which measurements choose.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "compile/kernel_variants.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "loops/plan.h"

using namespace braze;
using driver::KernelVariant;

namespace {

constexpr const char* two_kernels = R"(graph @main(%x: f32[4096,1024]@cuda:0, %y: f32[1024,1024]@cuda:0) {
  %0 = softmax %x, dim=1 : f32[4096,1024]@cuda:0
  %1 = mm %0, %y : f32[4096,1024]@cuda:0
  %2 = exp %1 : f32[4096,1024]@cuda:0
  return %2
})";

constexpr const char* of_any_size = R"(graph @main[n = 64](%x: f32[n,1024]@cuda:0) {
  %0 = exp %x : f32[n,1024]@cuda:0
  %1 = sum %0, dims=[1] : f32[n]@cuda:0
  return %0, %1
})";

driver::Options options() {
  driver::Options wanted;
  wanted.verify = true;
  wanted.tunes = true;
  wanted.code.use_disk_cache = false;
  return wanted;
}

}  // namespace

TEST_CASE("each step of a GPU has forms of its kernel, its own first, and no two alike") {
  const driver::Artifact artifact = driver::compile(*ir::parse(two_kernels), options());
  const auto variants = driver::variants_of_steps(artifact);
  REQUIRE(variants.size() == artifact.plan.steps.size());
  size_t kernels = 0;
  for (size_t s = 0; s < variants.size(); ++s) {
    const loops::Step& step = artifact.plan.steps[s];
    if (step.kind == loops::StepKind::call) CHECK(variants[s].empty());
    if (variants[s].empty()) continue;
    ++kernels;
    CHECK(variants[s].size() > 1);
    CHECK(variants[s][0].hash == artifact.plan.kernel_hashes[step.kernel.kernel]);
    for (size_t k = 0; k < variants[s].size(); ++k) {
      CHECK(std::ranges::count(variants[s], variants[s][k].hash, &KernelVariant::hash) == 1);
      CHECK(variants[s][k].symbols.size() == step.kernel.symbols.size());
    }
  }
  CHECK(kernels == 2);
}

TEST_CASE("nothing is lowered again where nobody measures, and nothing for a CPU") {
  driver::Options plain = options();
  plain.tunes = false;
  CHECK(driver::compile(*ir::parse(two_kernels), plain).others.empty());
  const auto on_cpu = ir::parse("graph @main(%x: f32[64]) {\n  %0 = exp %x : f32[64]\n  return %0\n}");
  const driver::Artifact artifact = driver::compile(*on_cpu, options());
  CHECK(artifact.others.empty());
  CHECK(driver::variants_of_steps(artifact).at(0).empty());
}

TEST_CASE("an artifact with other forms is one that was lowered so") {
  driver::Artifact artifact = driver::compile(*ir::parse(two_kernels), options());
  const size_t launches = artifact.facts.steps.size();
  const auto variants = driver::variants_of_steps(artifact);
  std::vector<std::pair<size_t, KernelVariant>> chosen;
  for (size_t s = 0; s < variants.size(); ++s)
    if (!variants[s].empty()) chosen.emplace_back(s, variants[s].back());
  driver::use_variants(artifact, chosen, options().code);
  loops::verify(artifact.plan);
  CHECK(artifact.facts.steps.size() == launches);
  REQUIRE(artifact.code.size() == artifact.plan.kernels.size());
  REQUIRE(artifact.targets.size() == artifact.plan.kernels.size());
  for (size_t k = 0; k < artifact.code.size(); ++k) CHECK(!artifact.code[k]->gpu_phases().empty());
  for (const auto& [step, form] : chosen) {
    const loops::KernelStep& launch = artifact.plan.steps[step].kernel;
    CHECK(artifact.plan.kernel_hashes[launch.kernel] == form.hash);
    CHECK(artifact.facts.steps[step].name == form.kernel->name);
  }
}

TEST_CASE("kernels for all sizes have forms, too, with symbols of their own") {
  const auto graph = ir::parse(of_any_size);
  const driver::SymbolicArtifact family = driver::compile_symbolic(*graph, options());
  CHECK(!family.others.empty());
  for (const int64_t n : {2, 37, 5000}) {
    CAPTURE(n);
    driver::Artifact artifact = family.at(std::array{n});
    const auto variants = driver::variants_of_steps(artifact);
    const auto found = std::ranges::find_if(variants, [](const auto& forms) { return !forms.empty(); });
    REQUIRE(found != variants.end());
    const auto step = static_cast<size_t>(found - variants.begin());
    driver::use_variants(artifact, std::array{std::pair(step, found->back())}, options().code);
    loops::verify(artifact.plan);
  }
}

TEST_CASE("what is measured holds for like sizes, not for other operators, types or sizes") {
  const auto key = [](const std::string& text) {
    const driver::Artifact artifact = driver::compile(*ir::parse(text), options());
    return driver::variants_key(artifact, 0);
  };
  const auto graph = [](const std::string& op, const std::string& type) {
    return "graph @main(%x: " + type + "@cuda:0) {\n  %0 = " + op + " %x : " + type + "@cuda:0\n  return %0\n}";
  };
  const Hash128 first = key(graph("exp", "f32[4096,1024]"));
  CHECK(key(graph("exp", "f32[4097,1030]")) == first);
  CHECK(key(graph("exp", "f32[8192,1024]")) != first);
  CHECK(key(graph("exp", "bf16[4096,1024]")) != first);
  CHECK(key(graph("sin", "f32[4096,1024]")) != first);
}
