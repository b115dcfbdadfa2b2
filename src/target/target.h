// target/target.h: what programs are lowered and compiled for: every figure about a machine that loops/ and
// codegen/ use, in one place. Where each is from stands beside it in target.cpp.
//
// The figures are those of a class of machines, not of the one at hand: two machines of a class get the same loops,
// hence the same rounding, and share cached code.
#pragma once

#include <cstdint>
#include <string_view>

namespace braze {

/// Chosen at run time, without LLVM, so that a cached kernel loads fast.
enum class Isa : uint8_t {
  avx2,    ///< x86-64-v3
  avx512,  ///< x86-64-v4: F, BW, CD, DQ, VL
  sm_90,   ///< NVIDIA Hopper: H100, H200
};

/// How loops are shaped for threads of a CPU (loops/schedule/cpu).
struct CpuLimits {
  int64_t thread_work = 0;      ///< Elements moved that are worth handing to another thread.
  int64_t hidden = 0;           ///< Instructions that pass unnoticed while a vector is loaded and stored.
  int64_t points_multiple = 0;  ///< Of so many elements are the parts that threads take of a flat kernel.
  int64_t register_rows = 0;    ///< Reduced rows up to which accumulators of columns stay in registers.
  int64_t run_bytes = 0;        ///< Runs of a transposed copy; longer ones touch too many pages at once.
  int64_t tile_side = 0;        ///< Most elements along a side of a transposed copy's tile.
  int64_t longest_strip = 0, shortest_strip = 0;  ///< Lanes of a strip of columns.
  int64_t wanted_strips = 0;                      ///< Enough for a few threads.
  int64_t block_rows = 0, least_block_rows = 0;   ///< Rows that move together where their order changes.
  int64_t most_chunks = 0;    ///< Of a split reduction; fixed, so that results do not depend on threads.
  int64_t running_lanes = 0;  ///< How much slower a step of a scan is than other arithmetic, in lanes,
  int64_t running_rows = 0;   ///< and along rows.
  int64_t rows_together = 0;  ///< Rows scanned side by side, as a step of one does not wait for the others.
  /// Statements up to which a loop's body is copied four times and twice.
  size_t unroll_four = 0, unroll_two = 0;
  bool operator==(const CpuLimits&) const = default;
};

/// How loops are shaped for blocks of threads of a GPU (loops/schedule/gpu).
struct GpuLimits {
  int64_t warp = 0;             ///< Threads that run in step.
  int64_t most_threads = 0;     ///< Of a block.
  int64_t shared_bytes = 0;     ///< Of a block.
  int64_t multiprocessors = 0;  ///< Fewer blocks leave some idle.
  int64_t block_threads = 0;    ///< Of a block whose threads need nothing of each other.
  int64_t warp_threads = 0;     ///< Of a block each of whose warps reduces a row of its own.
  int64_t least_threads = 0;    ///< Of a block that reduces a row.
  int64_t moved_bytes = 0;      ///< Most of a value that a thread takes at once.
  /// Vectors of a row that each thread of a block takes, before there are more threads.
  int64_t thread_vectors = 0;
  int64_t warp_row = 0;         ///< Elements of a row up to which a warp reduces it alone.
  int64_t cluster_row = 0;      ///< Elements of a row up to which a block reduces it alone.
  int64_t most_cluster = 0;     ///< Blocks that can read each other's shared memory.
  int64_t thread_rows = 0;      ///< Reduced rows up to which a thread reduces a column alone.
  int64_t kept = 0;             ///< Elements of a row that a thread keeps from pass to pass.
  int64_t registers = 0;        ///< Of a multiprocessor, 32 bits each.
  int64_t busy_registers = 0;   ///< Of a thread, which hold nothing of a row.
  int64_t least_chunk = 0;      ///< Elements of a part of a split reduction.
  int64_t tile_side = 0;        ///< Of a transposed tile.
  int64_t bank_bytes = 0;       ///< Of shared memory: what a thread reads of it without standing in another's way.
  int64_t scratch_bytes = 0;    ///< Shared memory of a row's block for joining what its warps have found.
  int32_t loads_in_flight = 0;  ///< Of one thread's loop over a row: so often its body is copied.
  bool operator==(const GpuLimits&) const = default;
};

struct Target {
  Target(Isa isa);  // NOLINT: an instruction set is a target
  /// The best that this CPU runs; BRAZE_ISA=avx2 lowers it. Throws UserError on a CPU without AVX2 and FMA.
  static const Target& host();
  /// The target of an instruction set; lives for ever.
  static const Target& of(Isa isa);
  /// NVIDIA's H100 and H200.
  static const Target& hopper() { return of(Isa::sm_90); }
  /// By name: avx2, avx512, sm_90. Throws UserError.
  static Target named(std::string_view name);

  Isa isa;
  bool operator==(const Target&) const = default;
  bool is_gpu() const { return isa == Isa::sm_90; }
  std::string_view name() const;

  // What a thread has.
  int vector_bytes = 0;      ///< Most that one instruction loads.
  int vector_registers = 0;  ///< Of that size.

  // Memory, in bytes.
  int64_t cache_line = 0;
  int64_t near_cache = 0;    ///< The nearest cache: of a core, of a multiprocessor.
  int64_t second_cache = 0;  ///< The next one.
  int64_t last_cache = 0;    ///< Results of this size and more are stored past the caches.

  // What loops cost.
  int64_t short_axis = 0;  ///< Lanes; fewer waste most of what runs side by side.
  int64_t gather = 0;      ///< Instructions of a vector that is read lane by lane.
  int64_t load = 0;        ///< Instructions that take as long as loading a vector, or storing one.

  // What becomes one kernel.
  size_t most_nodes = 0;       ///< Larger kernels gain nothing more and take long to compile.
  int64_t wide_reduction = 0;  ///< Elements a result from which a reduction to few results is split,
  int64_t few_results = 0;     ///< and how many those are.

  CpuLimits cpu;  ///< Zeros on a GPU,
  GpuLimits gpu;  ///< and these on a CPU.

  int64_t line_elements(int64_t element_bytes = 4) const { return cache_line / element_bytes; }
};

/// What a graph is lowered for, whose values may lie on devices of both kinds. Never null; not owned.
struct Targets {
  const Target* cpu = &Target::host();
  const Target* gpu = &Target::hopper();
};

}  // namespace braze
