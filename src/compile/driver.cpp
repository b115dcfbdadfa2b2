#include "compile/driver.h"

#include <algorithm>
#include <optional>
#include <span>

#include "compile/artifact_cache.h"
#include "compile/inspect.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "loops/alike.h"
#include "passes/gelu_of_products.h"
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

loops::LoweringOptions lowering_options(const ir::Graph& graph, const Options& options, Facts& facts) {
  loops::LayoutOverrides layouts = choose_layouts(graph, options.convolutions);
  if (!layouts.empty()) facts.convolutions = ConvolutionLayout::channels_last;
  return {.fuse = options.fuse,
          .writable = options.writable,
          .layouts = std::move(layouts),
          .targets = {.cpu = &options.code.target}};
}

bool uses_gpu(const loops::Plan& plan) {
  return std::ranges::any_of(plan.steps, [&](const loops::Step& step) {
    return step.kind == loops::StepKind::kernel && !step.kernel.buffers.empty() &&
           plan.buffers[step.kernel.buffers.front()].device.kind == ir::DeviceKind::cuda;
  });
}

/// Lowers with each tuning that may be faster than the target's own.
/// \param lower  of LoweringOptions.
template <typename Lower>
void lower_others(const ir::Graph& graph, const Options& options, Facts& facts, Lower&& lower) {
  const PhaseTimer timer(&facts.times, "loops");
  const std::vector<loops::gpu::Tuning> tunings = loops::gpu::candidates(Target::hopper());
  for (const loops::gpu::Tuning& tuning : std::span(tunings).subspan(1)) {
    const Target target = loops::gpu::tuned(Target::hopper(), tuning);
    loops::LoweringOptions wanted = lowering_options(graph, options, facts);
    wanted.targets.gpu = &target;
    lower(tuning, wanted);
  }
}

void lower(const ir::Graph& graph, const Options& options, Artifact& artifact) {
  const PhaseTimer timer(&artifact.facts.times, "loops");
  artifact.plan = loops::lower(graph, lowering_options(graph, options, artifact.facts));
  loops::share_alike_kernels(artifact.plan);
  if (options.verify) loops::verify(artifact.plan);
}

void lower_others(const ir::Graph& graph, const Options& options, Artifact& artifact) {
  if (!options.tunes || !uses_gpu(artifact.plan)) return;
  lower_others(graph, options, artifact.facts,
               [&](const loops::gpu::Tuning& tuning, const loops::LoweringOptions& wanted) {
                 artifact.others.push_back({tuning, loops::lower(graph, wanted)});
                 if (options.verify) loops::verify(artifact.others.back().plan);
               });
}

/// What both ways of compiling do to a graph first. Its nodes as they came are counted.
void rewrite(ir::Graph& graph, const Options& options, Facts& facts) {
  facts.nodes_traced = graph.node_count();
  if (options.verify) ir::verify(graph);
  options.emulate_precision_casts ? passes::round_halves(graph) : passes::round_halves_where_seen(graph);
  if (!options.emulate_precision_casts) passes::gelu_of_products(graph);
  passes::run(graph, &facts.times, options.verify);
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

/// \param artifact  Artifact or SymbolicArtifact, whose targets are known.
void generate_code(const Options& options, std::span<const std::shared_ptr<loops::Kernel>> all,
                   std::span<const Hash128> all_hashes, auto& artifact) {
  const Target *cpu = &Target::of(options.code.target.isa), *gpu = &Target::hopper();
  artifact.code.resize(all.size());
  for (const Target* target : {cpu, gpu}) {
    std::vector<const loops::Kernel*> kernels;
    std::vector<Hash128> hashes;
    std::vector<size_t> places;
    for (size_t k = 0; k < all.size(); ++k) {
      if (artifact.targets[k] != target) continue;
      kernels.push_back(all[k].get());
      hashes.push_back(all_hashes[k]);
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

namespace {

/// What is known of the graph from earlier compilations. `facts` are filled in as far as they were kept.
template <typename AnyPlan>
std::optional<AnyPlan> known_plan(const std::optional<Hash128>& key, const ir::Graph& graph, Facts& facts) {
  if (!key) return std::nullopt;
  const PhaseTimer timer(&facts.times, "artifact");
  auto kept = find_plan<AnyPlan>(*key);
  if (!kept) return std::nullopt;
  facts.nodes_traced = graph.node_count();
  facts.nodes = kept->nodes;
  facts.convolutions = kept->convolutions;
  return std::move(kept->plan);
}

template <typename AnyPlan>
void keep(const std::optional<Hash128>& key, const AnyPlan& plan, Facts& facts) {
  if (!key) return;
  const PhaseTimer timer(&facts.times, "artifact");
  keep_plan(*key, plan, facts);
}

/// The machine code of a plan, and what can be told of it.
void finish(const Options& options, Artifact& artifact) {
  if (options.last >= Stage::code) {
    artifact.targets = targets_of_kernels(artifact.plan, Target::of(options.code.target.isa));
    generate_code(options, artifact.plan.kernels, artifact.plan.kernel_hashes, artifact);
  }
  inspect(artifact);
}

}  // namespace

Artifact compile(ir::Graph& graph, const Options& options, PhaseTimes times) {
  Artifact artifact;
  artifact.facts.times = std::move(times);
  const std::optional<Hash128> key = artifact_key(graph, options);
  if (auto known = known_plan<loops::Plan>(key, graph, artifact.facts)) {
    artifact.plan = *std::move(known);
    artifact.rewrote_graph = false;
  } else {
    if (options.keep_text) {
      const PhaseTimer timer(&artifact.facts.times, "print");
      artifact.traced_text = ir::print(graph, {.sources = true});
    }
    rewrite(graph, options, artifact.facts);
    artifact.facts.nodes = graph.node_count();
    if (options.last >= Stage::plan) {
      lower(graph, options, artifact);
      lower_others(graph, options, artifact);
    }
    keep(key, artifact.plan, artifact.facts);
  }
  finish(options, artifact);
  return artifact;
}

Artifact compile_rewritten(const ir::Graph& graph, const Options& options, PhaseTimes times) {
  Artifact artifact;
  artifact.facts.times = std::move(times);
  artifact.facts.nodes_traced = artifact.facts.nodes = graph.node_count();
  if (options.last >= Stage::plan) lower(graph, options, artifact);
  finish(options, artifact);
  return artifact;
}

SymbolicArtifact compile_symbolic(ir::Graph& graph, const Options& options, PhaseTimes times) {
  SymbolicArtifact family;
  family.facts.times = std::move(times);
  const std::optional<Hash128> key = artifact_key(graph, options);
  if (auto known = known_plan<loops::SymbolicPlan>(key, graph, family.facts)) {
    family.plan = *std::move(known);
  } else {
    rewrite(graph, options, family.facts);
    family.facts.nodes = graph.node_count();
    {
      const PhaseTimer timer(&family.facts.times, "loops");
      family.plan = loops::lower_symbolic(graph, lowering_options(graph, options, family.facts));
      if (options.verify) loops::verify(family.plan);
    }
    if (options.tunes && uses_gpu(family.plan.at(graph.shape_env().examples())))
      lower_others(graph, options, family.facts,
                   [&](const loops::gpu::Tuning& tuning, const loops::LoweringOptions& wanted) {
                     family.others.emplace_back(tuning, loops::lower_symbolic(graph, wanted));
                     if (options.verify) loops::verify(family.others.back().second);
                   });
    keep(key, family.plan, family.facts);
  }
  const std::span<const int64_t> examples = graph.shape_env().examples();
  family.targets = targets_of_kernels(family.plan.at(examples), Target::of(options.code.target.isa));
  if (options.last >= Stage::code)
    generate_code(options, family.plan.kernels(), family.plan.kernel_hashes(), family);
  Artifact example = family.at(examples);
  if (options.verify) loops::verify(example.plan);
  inspect(example);
  family.facts = std::move(example.facts);
  return family;
}

Artifact SymbolicArtifact::at(std::span<const int64_t> symbols) const {
  Artifact artifact;
  artifact.plan = plan.at(symbols);
  artifact.code = code;
  artifact.targets = targets;
  artifact.facts = facts;
  artifact.facts.arena_bytes = artifact.plan.arena_bytes;
  artifact.facts.unplanned_bytes = artifact.plan.unplanned_bytes;
  artifact.facts.output_bytes = 0;
  for (const loops::PlanBuffer& buffer : artifact.plan.buffers)
    if (buffer.kind == loops::BufferKind::output) artifact.facts.output_bytes += buffer.bytes;
  for (const auto& [tuning, other] : others)
    if (!other.refuses(symbols)) artifact.others.push_back({tuning, other.at(symbols)});
  return artifact;
}

}  // namespace braze::driver
