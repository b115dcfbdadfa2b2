// codegen/compiler.h: loop kernels to machine code in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loops/kernel.h"
#include "support/hash.h"
#include "support/phases.h"
#include "target/target.h"

namespace braze::codegen {

/// The machine code of one phase of a kernel: iterations [begin, end) of its top-level loop (in steps: begin and
/// end count iterations, not values of the loop variable).
/// \param buffers  address of the first element of each kernel parameter.
/// \param scalars  8 bytes each: f32 in the low half, integers sign-extended.
/// \param symbols  value of each symbol.
/// \param status   set to 1 + index of the failed `checked` statement, or to loops::status_of the check that a
///                 value has failed; otherwise left alone. Shared by all threads.
using PhaseFunction = void (*)(void* const* buffers, const uint64_t* scalars, const int64_t* symbols, int64_t begin,
                               int64_t end, int64_t* status);

struct Phase {
  PhaseFunction function = nullptr;
  bool parallel = false;     ///< May be split between threads.
  loops::Extent iterations;  ///< Of the top-level loop.
  int64_t grain = 1;         ///< Fewest iterations worth a thread.
};

/// One phase of a kernel for a GPU: a launch of `blocks` x 1 x 1 blocks of `threads` x 1 x 1 threads. Its
/// parameters, all by value: the device address of the first element of each kernel parameter, 8 bytes for each
/// scalar and for each symbol (as in PhaseFunction), the device address of the status, which may be null.
struct GpuPhase {
  std::string entry;          ///< Its name in the code.
  uint32_t threads = 0;       ///< Of a block: whole warps.
  loops::Extent blocks;       ///< None: there is nothing to launch.
  uint32_t shared_bytes = 0;  ///< Dynamic shared memory of a block.
  uint32_t cluster = 1;       ///< Blocks that read each other's shared memory; `blocks` is a multiple of it.
};

/// Executable code of one kernel. Immutable; safe to call from any thread. Freed with the last shared_ptr.
/// For a CPU it has `phases`, for a GPU the three others, which device/cuda/module.h loads and launches.
class CompiledKernel : public std::enable_shared_from_this<CompiledKernel> {
 public:
  virtual ~CompiledKernel() = default;
  const std::vector<Phase>& phases() const { return phases_; }
  size_t code_bytes() const { return code_bytes_; }

  const std::vector<GpuPhase>& gpu_phases() const { return gpu_phases_; }
  /// A cubin, or PTX (ending in a zero byte) where nothing could link it: then the driver does when it is loaded.
  std::string_view device_code() const { return device_code_; }
  /// Bytes that the address of each parameter must be a multiple of for this code: 128-bit accesses rely on it.
  const std::vector<uint32_t>& alignments() const { return alignments_; }
  size_t scalar_count() const { return scalar_count_; }  ///< GPU only: parameters of a launch.
  size_t symbol_count() const { return symbol_count_; }  ///< GPU only.
  /// GPU only: code of the same kernel that relies on no more than the kernel's own text promises. Compiled on the
  /// first call, which is rare: the caching allocator aligns to 512 bytes.
  virtual std::shared_ptr<const CompiledKernel> unaligned() const { return nullptr; }

 protected:
  std::vector<Phase> phases_;
  std::vector<GpuPhase> gpu_phases_;
  std::vector<uint32_t> alignments_;
  std::string_view device_code_;
  size_t scalar_count_ = 0, symbol_count_ = 0;
  size_t code_bytes_ = 0;
};

struct CompileOptions {
  Target target = Target::host();
  bool use_disk_cache = true;  ///< BRAZE_CACHE=0 switches it off as well.
  int threads = 0;             ///< 0: as many as there are CPUs for this process, at most one per 2 kernels.
};

struct CompileStats {
  int compiled = 0, from_memory = 0, from_disk = 0;
};

/// Compiles kernels, in parallel, through the caches (memory by structural hash, then disk, then LLVM).
/// Returns them in the same order. `hashes` are the structural hashes, one per kernel.
/// Thread-safe. LLVM is initialised on the first kernel that no cache holds.
/// Phases recorded: "codegen" and parts "codegen/load", "codegen/emit", "codegen/machine", "codegen/store"
/// (parts of several threads add up).
std::vector<std::shared_ptr<const CompiledKernel>> compile(std::span<const loops::Kernel* const> kernels,
                                                           std::span<const Hash128> hashes,
                                                           const CompileOptions& options = {},
                                                           PhaseTimes* times = nullptr,
                                                           CompileStats* stats = nullptr);

/// Begins, on another thread, what the first compilation of a process for this target would have to wait for.
/// Returns at once; worth calling as soon as it is known that something will be compiled for a GPU.
void prepare(const Target& target);

/// The machine code as blobs (codegen/back_end.h), in order; compiled anew, for keeping.
std::vector<std::string> make_blobs(std::span<const loops::Kernel* const> kernels,
                                    const CompileOptions& options = {});

/// The LLVM IR or assembly (PTX for a GPU) of a kernel, compiled anew (for reading, not for running).
std::string llvm_ir(const loops::Kernel& kernel, const Target& target = Target::host());
std::string assembly(const loops::Kernel& kernel, const Target& target = Target::host());
/// What a GPU runs (SASS), disassembled; empty for a CPU, whose `assembly` that is already. Throws UserError where
/// NVIDIA's linker or disassembler is missing.
std::string machine_code(const loops::Kernel& kernel, const Target& target);

/// Forgets every kernel kept in memory (programs that hold them keep them).
void clear_memory_cache();

}  // namespace braze::codegen
