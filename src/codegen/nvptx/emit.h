// codegen/nvptx/emit.h: loop kernels to LLVM IR for NVIDIA GPUs: what one thread does, in scalars.
//
// Vectors exist only where memory is touched: a loop marked `vector` becomes its iterations side by side, whose
// loads and stores of neighbours are 128 bits wide. Loops over warps and threads (loops/kernel.h says what they
// mean) become arithmetic on the thread's number, and their reductions shuffles, with shared memory between warps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "codegen/compiler.h"
#include "loops/kernel.h"
#include "target/target.h"

namespace llvm {
class Module;
}

namespace braze::codegen::nvptx {

struct Emission {
  std::vector<GpuPhase> phases;      ///< Entries are `<prefix>0`, `<prefix>1`, ...
  std::vector<uint32_t> alignments;  ///< By parameter: CompiledKernel::alignments.
};

/// Adds one kernel function a phase. The kernel must pass loops::verify. `module` has the data layout of the
/// target.
/// \param aligned  Wide accesses may ask more of addresses than the kernel's text promises (Emission::alignments).
/// Throws InternalError for a `transpose`, which no schedule of a GPU makes.
Emission emit(const loops::Kernel& kernel, const Target& target, llvm::Module& module, std::string_view prefix,
              bool aligned);

}  // namespace braze::codegen::nvptx
