#include "compile/driver.h"

#include "compile/inspect.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "passes/round_halves.h"

namespace braze::driver {

namespace {

/// What convolutions ask where they are not computed as traced; empty if they are.
loops::LayoutOverrides choose_layouts(const ir::Graph& graph, Convolutions wanted) {
  if (wanted == Convolutions::as_traced) return {};
  loops::LayoutOverrides convolutions = channels_last_convolutions(graph);
  if (wanted == Convolutions::cheapest && !channels_last_pays(graph, convolutions)) convolutions.clear();
  return convolutions;
}

void lower(const ir::Graph& graph, const Options& options, Artifact& artifact) {
  const PhaseTimer timer(&artifact.facts.times, "loops");
  const loops::LayoutOverrides layouts = choose_layouts(graph, options.convolutions);
  if (!layouts.empty()) artifact.facts.convolutions = ConvolutionLayout::channels_last;
  artifact.plan = loops::lower(graph, {.fuse = options.fuse,
                                       .writable = options.writable,
                                       .layouts = layouts,
                                       .targets = {.cpu = &options.code.target}});
  if (options.verify) loops::verify(artifact.plan);
}

/// What each kernel runs on.
std::vector<const Target*> targets_of_kernels(const loops::Plan& plan, const Target& cpu) {
  std::vector<const Target*> targets(plan.kernels.size(), &cpu);
  for (const loops::Step& step : plan.steps) {
    if (step.kind != loops::Step::Kind::kernel || step.kernel.buffers.empty()) continue;
    if (plan.buffers[step.kernel.buffers.front()].device.kind == ir::DeviceKind::cuda)
      targets[step.kernel.kernel] = &Target::hopper();
  }
  return targets;
}

void generate_code(const Options& options, Artifact& artifact) {
  const loops::Plan& plan = artifact.plan;
  const Target *cpu = &Target::of(options.code.target.isa), *gpu = &Target::hopper();
  artifact.code.resize(plan.kernels.size());
  artifact.targets = targets_of_kernels(plan, *cpu);
  for (const Target* target : {cpu, gpu}) {
    std::vector<const loops::Kernel*> kernels;
    std::vector<Hash128> hashes;
    std::vector<size_t> places;
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      if (artifact.targets[k] != target) continue;
      kernels.push_back(plan.kernels[k].get());
      hashes.push_back(plan.kernel_hashes[k]);
      places.push_back(k);
    }
    if (kernels.empty()) continue;
    codegen::CompileOptions code = options.code;
    code.target = *target;
    auto compiled = codegen::compile(kernels, hashes, code, &artifact.facts.times, &artifact.facts.code);
    for (size_t k = 0; k < places.size(); ++k) artifact.code[places[k]] = std::move(compiled[k]);
    if (target == gpu) break;  // braze-opt lowers whole graphs for it.
  }
}

}  // namespace

Artifact compile(ir::Graph& graph, const Options& options, PhaseTimes times) {
  const size_t traced = graph.node_count();
  if (options.verify) ir::verify(graph);
  options.emulate_precision_casts ? passes::round_halves(graph) : passes::round_halves_before_steps(graph);
  passes::run(graph, &times, options.verify);
  Artifact artifact = compile_rewritten(graph, options, std::move(times));
  artifact.facts.nodes_traced = traced;
  return artifact;
}

Artifact compile_rewritten(const ir::Graph& graph, const Options& options, PhaseTimes times) {
  Artifact artifact;
  artifact.facts.times = std::move(times);
  artifact.facts.nodes_traced = artifact.facts.nodes = graph.node_count();
  if (options.last >= Stage::plan) lower(graph, options, artifact);
  if (options.last >= Stage::code) generate_code(options, artifact);
  inspect(artifact);
  return artifact;
}

}  // namespace braze::driver
