#include "target/target.h"

#include <array>

#include "support/error.h"
#include "support/switches.h"

namespace braze {

namespace {

constexpr int64_t KB = 1 << 10, MB = 1 << 20;

/// In the order of Isa.
constexpr std::array<std::string_view, 3> names = {"avx2", "avx512", "sm_90"};

/// Measured: on two cores of an AMD Zen 5, in both instruction sets.
CpuLimits cpu_limits() {
  CpuLimits limits;
  limits.thread_work = 1 << 15;   // handing it over takes some 3 us (measured); eager's number too (at::GRAIN_SIZE)
  limits.hidden = 16;             // measured on chains of arithmetic over memory
  limits.points_multiple = 1024;  // whole lines of every type, whatever the loop is unrolled to
  limits.register_rows = 16;      // so few rows fit into the cache together: the registers of AVX2
  limits.run_bytes = 512;         // measured: runs twice as long touch more pages at once than are remembered
  limits.tile_side = 128;         // f32 in such a run
  limits.longest_strip = 1024;    // accumulators of 4 KB, and as much of a row, beside what is read
  limits.shortest_strip = 64;     // four lines of f32
  limits.wanted_strips = 8;       // enough for a few threads
  limits.block_rows = 16;         // measured on heads of attention
  limits.least_block_rows = 4;    // a quarter of that
  limits.most_chunks = 64;        // a few for each of 16 threads
  limits.running_lanes = 2;       // measured: twice as slow as arithmetic in lanes
  limits.running_rows = 8;        // measured: a step waits for the one before
  limits.rows_together = 4;       // an addition takes about as many cycles
  limits.unroll_four = 10;        // bodies that are shorter than what out-of-order execution looks ahead;
  limits.unroll_two = 24;         // longer ones take longer to compile and run no faster
  return limits;
}

void make_x86(Target& target) {
  const bool wide = target.isa == Isa::avx512;
  target.vector_bytes = wide ? 64 : 32;      // Intel's manual, volume 1, chapters 14 and 15
  target.vector_registers = wide ? 32 : 16;  // the same
  target.cache_line = 64;                    // of every x86-64 CPU so far
  target.near_cache = 48 * KB;               // Intel since Ice Lake, AMD since Zen 5 (32 before)
  target.second_cache = 1 * MB;              // AMD since Zen 4; Intel's servers have 1 to 2
  target.last_cache = 32 * MB;               // of eight cores of a Zen; stores past it pay from there on (measured)
  target.short_axis = 8;                     // f32 in a vector of AVX2, and half of one of AVX-512
  target.gather = 16;                        // a load for each f32 of the widest vector
  target.load = 4;                           // its latency in the nearest cache, in cycles, of Intel's and AMD's
  target.most_nodes = 96;                    // what makes machine code takes time in proportion
  target.wide_reduction = 1 << 15;           // thread_work: then each part is worth a thread
  target.few_results = 64;                   // as many as a split has chunks
  target.cpu = cpu_limits();
}

/// "Guide": NVIDIA's CUDA C++ Programming Guide, tables of compute capability 9.0. "Tuning": the Hopper Tuning
/// Guide.
void make_hopper(Target& target) {
  target.vector_bytes = 16;         // ld.global.v4.b32 (PTX ISA)
  target.vector_registers = 255;    // of 32 bits, a thread (Guide)
  target.cache_line = 128;          // four sectors of 32 (Tuning)
  target.near_cache = 256 * KB;     // first level and shared memory together (Tuning)
  target.second_cache = 50 * MB;    // of an H100 and an H200 (data sheets)
  target.last_cache = 50 * MB;      // the same: there is no third
  target.short_axis = 16;           // half of a warp
  target.gather = 32;               // a sector for each thread of a warp
  target.load = 4;                  // as on CPUs: four arithmetic warps issue while one load or store does (Tuning)
  target.most_nodes = 96;           // as on CPUs: what makes machine code takes time in proportion
  target.wide_reduction = 1 << 15;  // a block of 1024 threads with 32 elements each: more are worth two phases
  target.few_results = 132;         // one a multiprocessor: blocks of their own would leave some idle
  GpuLimits& gpu = target.gpu;
  gpu.warp = 32;                // Guide
  gpu.most_threads = 1024;      // Guide
  gpu.shared_bytes = 227 * KB;  // Guide
  gpu.multiprocessors = 132;    // data sheets
  gpu.block_threads = 256;      // eight blocks fill the 2048 threads of a multiprocessor (Guide)
  gpu.warp_threads = 128;      // measured: up to an eighth faster than 256 where much is computed, and never slower
  gpu.least_threads = 128;     // four warps: one for each scheduler (Tuning)
  gpu.moved_bytes = 32;        // two vector loads in flight; more of them hold more registers
  gpu.thread_vectors = 4;      // loads in flight that hide the memory's latency at 2048 threads
  gpu.warp_row = 1024;         // 32 f32 a thread: an eighth of its registers
  gpu.cluster_row = 64 << 10;  // measured: as many as a block keeps; shorter rows wait for each other's blocks
  gpu.most_cluster = 8;        // on every device (Guide)
  gpu.thread_rows = 32;        // as many loads in a thread, one behind another
  gpu.kept = 64;               // rows of 65,536 in a block of 1024; the code grows with it
  gpu.registers = 64 << 10;    // Guide
  gpu.busy_registers = 40;     // what pointwise kernels take (ptxas)
  gpu.least_chunk = 4096;      // 16 f32 for each of 256 threads
  gpu.tile_side = 32;          // a warp reads and writes 128 bytes of f32
  gpu.bank_bytes = 4;          // Guide
  gpu.scratch_bytes = 4 << 10;  // a value of 8 bytes and an index for each of 32 warps, of several reductions
  gpu.loads_in_flight = 4;      // as thread_vectors
}

// __builtin_cpu_supports asks the CPU *and* whether the operating system saves the registers (xgetbv).
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
}

bool runs_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

Isa detect() {
  __builtin_cpu_init();
  if (!runs_avx2())
    throw UserError("braze needs an x86-64 CPU with AVX2, FMA, BMI2 and F16C; this one lacks them.");
  const std::string_view isa = switches::text(switches::isa);
  if (!isa.empty() && isa != "avx2" && isa != "avx512")
    throw UserError(concat("BRAZE_ISA=", isa, " is not known. Use avx2 or avx512, or leave it unset."),
                    UserError::Kind::value);
  const bool wide = runs_avx512();
  if (isa == "avx512" && !wide)
    throw UserError("BRAZE_ISA=avx512, but this CPU has no AVX-512 (F, BW, CD, DQ, VL).");
  return wide && isa != "avx2" ? Isa::avx512 : Isa::avx2;
}

}  // namespace

Target::Target(Isa of) : isa(of) {
  is_gpu() ? make_hopper(*this) : make_x86(*this);
}

const Target& Target::host() {
  static const Target target(detect());
  return target;
}

const Target& Target::of(Isa isa) {
  static const Target targets[] = {Isa::avx2, Isa::avx512, Isa::sm_90};
  return targets[static_cast<size_t>(isa)];
}

Target Target::named(std::string_view name) {
  for (size_t k = 0; k < names.size(); ++k)
    if (names[k] == name) return Target(static_cast<Isa>(k));
  throw UserError(concat("no target is called '", name, "'"));
}

std::string_view Target::name() const {
  return names[static_cast<size_t>(isa)];
}

}  // namespace braze
