#include "compile/kernel_variants.h"

#include <algorithm>
#include <unordered_map>

#include "compile/inspect.h"
#include "support/error.h"
#include "support/size_bucket.h"

namespace braze::driver {

namespace {

/// Where a kernel finds a parameter, and what that is. Temporaries may lie elsewhere in another plan.
bool same_memory(const loops::PlanBuffer& one, const loops::PlanBuffer& other) {
  return one.kind == other.kind && one.index == other.index && one.bytes == other.bytes &&
         one.dtype == other.dtype && one.device == other.device && one.sizes == other.sizes &&
         one.strides == other.strides;
}

/// What whoever starts a kernel has to know of its parameters.
bool same_parameters(const loops::Kernel& one, const loops::Kernel& other) {
  const auto parameters = [](const loops::Kernel& kernel) {
    return static_cast<size_t>(std::ranges::count_if(kernel.buffers, &loops::Buffer::is_parameter));
  };
  const size_t count = parameters(one);
  if (count != parameters(other) || one.scalars.size() != other.scalars.size()) return false;
  for (size_t k = 0; k < count; ++k) {
    const loops::Buffer &a = one.buffers[k], &b = other.buffers[k];
    if (a.dtype != b.dtype || a.access != b.access || a.alignment != b.alignment || a.is_exact != b.is_exact)
      return false;
  }
  return loops::has_checks(one) == loops::has_checks(other);
}

/// Whether the kernel of `other`'s step can be started in place of that of `plan`'s.
bool replaces(const loops::Plan& plan, const loops::KernelStep& step, const loops::Plan& other,
              const loops::KernelStep& by) {
  if (step.buffers != by.buffers || step.origins != by.origins ||
      !std::ranges::equal(step.scalars, by.scalars, &ir::Number::same_bits) || step.fused != by.fused)
    return false;
  for (const uint32_t b : step.buffers)
    if (b >= other.buffers.size() || !same_memory(plan.buffers[b], other.buffers[b])) return false;
  return same_parameters(*plan.kernels[step.kernel], *other.kernels[by.kernel]);
}

KernelVariant variant(const loops::gpu::Tuning& tuning, const loops::Plan& plan, const loops::KernelStep& step) {
  return {tuning, plan.kernels[step.kernel], plan.kernel_hashes[step.kernel], step.symbols};
}

/// Removes kernels that no step starts any more.
void drop_unused(Artifact& artifact) {
  loops::Plan& plan = artifact.plan;
  constexpr uint32_t unused = ~0u;
  std::vector<uint32_t> places(plan.kernels.size(), unused);
  uint32_t count = 0;
  for (loops::Step& step : plan.steps) {
    if (step.kind != loops::StepKind::kernel) continue;
    uint32_t& place = places[step.kernel.kernel];
    if (place == unused) place = count++;
    step.kernel.kernel = place;
  }
  const auto keep = [&](auto& list) {
    std::remove_reference_t<decltype(list)> kept(count);
    for (size_t k = 0; k < places.size(); ++k)
      if (places[k] != unused) kept[places[k]] = std::move(list[k]);
    list = std::move(kept);
  };
  keep(plan.kernels);
  keep(plan.kernel_hashes);
  keep(artifact.code);
  keep(artifact.targets);
}

}  // namespace

std::vector<std::vector<KernelVariant>> variants_of_steps(const Artifact& artifact) {
  const loops::Plan& plan = artifact.plan;
  std::vector<std::vector<KernelVariant>> variants(plan.steps.size());
  for (const OtherPlan& other : artifact.others) {
    if (other.plan.steps.size() != plan.steps.size()) continue;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const loops::Step &step = plan.steps[s], &by = other.plan.steps[s];
      if (step.kind != loops::StepKind::kernel || by.kind != loops::StepKind::kernel) continue;
      if (!replaces(plan, step.kernel, other.plan, by.kernel)) continue;
      KernelVariant found = variant(other.tuning, other.plan, by.kernel);
      if (variants[s].empty())
        variants[s].push_back(variant(loops::gpu::Tuning::of(Target::hopper()), plan, step.kernel));
      if (std::ranges::find(variants[s], found.hash, &KernelVariant::hash) == variants[s].end())
        variants[s].push_back(std::move(found));
    }
  }
  for (std::vector<KernelVariant>& each : variants)
    if (each.size() == 1) each.clear();
  return variants;
}

Hash128 variants_key(const Artifact& artifact, size_t step) {
  const loops::Plan& plan = artifact.plan;
  const loops::KernelStep& launch = plan.steps.at(step).kernel;
  Hasher hasher;
  hasher.add("variants of a kernel 1");
  for (const std::string& node : launch.fused) hasher.add(std::string_view(node).substr(node.find(' ') + 1));
  hasher.add(launch.buffers.size());
  for (const uint32_t b : launch.buffers) {
    const loops::PlanBuffer& buffer = plan.buffers[b];
    hasher.add(buffer.dtype).add(buffer.sizes.size());
    for (size_t d = 0; d < buffer.sizes.size(); ++d)
      hasher.add(size_bucket(buffer.sizes[d])).add(buffer.strides[d] <= 1 ? buffer.strides[d] : 2);
  }
  return hasher.finish();
}

void use_variants(Artifact& artifact, std::span<const std::pair<size_t, KernelVariant>> chosen,
                  const codegen::CompileOptions& code) {
  loops::Plan& plan = artifact.plan;
  for (const auto& [step, form] : chosen) {
    const auto known = std::ranges::find(plan.kernel_hashes, form.hash);
    loops::KernelStep& launch = plan.steps.at(step).kernel;
    launch.kernel = static_cast<uint32_t>(known - plan.kernel_hashes.begin());
    launch.symbols = form.symbols;
    if (known != plan.kernel_hashes.end()) continue;
    plan.kernels.push_back(form.kernel);
    plan.kernel_hashes.push_back(form.hash);
    artifact.code.push_back(nullptr);
    artifact.targets.push_back(&Target::hopper());
  }
  drop_unused(artifact);
  std::vector<const loops::Kernel*> kernels;
  std::vector<Hash128> hashes;
  std::vector<size_t> places;
  for (size_t k = 0; k < artifact.code.size(); ++k) {
    if (artifact.code[k]) continue;
    kernels.push_back(plan.kernels[k].get());
    hashes.push_back(plan.kernel_hashes[k]);
    places.push_back(k);
  }
  codegen::CompileOptions options = code;
  options.target = Target::hopper();
  auto compiled = codegen::compile(kernels, hashes, options, &artifact.facts.times, &artifact.facts.code);
  for (size_t k = 0; k < places.size(); ++k) artifact.code[places[k]] = std::move(compiled[k]);
  inspect(artifact);
}

}  // namespace braze::driver
