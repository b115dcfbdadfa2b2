// compile/kernel_variants.h: several kernels that compute the same, of which a GPU's own measurements are to choose
// (mode="max-autotune"). Each is what lowering makes of the graph with another tuning
// (loops/schedule/gpu/tuning.h); which is fastest depends on sizes and machine, and no model tells it well.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compile/driver.h"

namespace braze::driver {

/// One form of a kernel that a step of a plan starts, with the same buffers and scalars.
struct KernelVariant {
  loops::gpu::Tuning tuning;
  std::shared_ptr<loops::Kernel> kernel;
  Hash128 hash;
  std::vector<int64_t> symbols;  ///< Value of each symbol of the kernel.
};

/// By step of the artifact's plan: the forms of its kernel, no two alike, its own first. Empty where there is no
/// other: for library calls, for kernels of a CPU, and where no tuning makes a difference.
std::vector<std::vector<KernelVariant>> variants_of_steps(const Artifact& artifact);

/// What is measured for one step holds for another with the same key: the same operators on values of the same
/// types, whose sizes differ by less than an eighth.
Hash128 variants_key(const Artifact& artifact, size_t step);

/// Steps of `artifact` run other forms of their kernels from now on: `chosen` has (step, form). Their code is made,
/// unless a cache has it.
void use_variants(Artifact& artifact, std::span<const std::pair<size_t, KernelVariant>> chosen,
                  const codegen::CompileOptions& code);

}  // namespace braze::driver
