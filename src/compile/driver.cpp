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
  artifact.plan = loops::lower(
      graph,
      {.fuse = options.fuse, .writable = options.writable, .layouts = layouts, .target = &options.code.target});
  if (options.verify) loops::verify(artifact.plan);
}

void generate_code(const Options& options, Artifact& artifact) {
  const loops::Plan& plan = artifact.plan;
  std::vector<const loops::Kernel*> kernels;
  for (const auto& kernel : plan.kernels) kernels.push_back(kernel.get());
  artifact.code =
      codegen::compile(kernels, plan.kernel_hashes, options.code, &artifact.facts.times, &artifact.facts.code);
}

}  // namespace

Artifact compile(ir::Graph& graph, const Options& options, PhaseTimes times) {
  const size_t traced = graph.node_count();
  if (options.verify) ir::verify(graph);
  if (options.emulate_precision_casts) passes::round_halves(graph);
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
