// runtime/program.h: a compiled program: steps over planned memory, ready to be called.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "capture/trace.h"
#include "compile/facts.h"
#include "support/error.h"
#include "support/phases.h"

namespace braze::driver {
struct SymbolicArtifact;
}

namespace braze::loops {
template <typename Number>
struct PlanOf;
}

namespace braze::runtime {

class GraphedCalls;

struct ProgramOptions {
  bool fuse = true;
  bool emulate_precision_casts = false;  ///< Round to bf16 and f16 after every operator, as eager does.
  bool use_disk_cache = true;
  bool verify = false;  ///< Run the IR verifiers after every stage.
  /// Copies of weights are kept in the form that is multiplied fastest (runtime/packed_weights.h): what is written
  /// to them past PyTorch's version counters is then not seen before forget_packed_weights().
  bool prepack_weights = false;
  /// Where there are several ways to compute the same, whose results may differ in the last bits, they are measured
  /// during the first calls. Else one is chosen by what is known of the processor, and never changes.
  bool max_autotune = false;
  /// Calls on a GPU are recorded as CUDA graphs and replayed (runtime/graphed_calls.h).
  bool cuda_graphs = false;
  /// Large temporaries have memory only while they are needed, so that the peak of a training step is no more than
  /// eager's. Else they lie in the arena: on a CPU it is kept between calls and costs no page faults, and
  /// recordings of CUDA graphs stay with theirs.
  bool spares_memory = false;
  int compile_threads = 0;  ///< 0: as many as there are cores and work for.
  /// The tensors that were traced, one per argument: only to learn which of them share storage. May be empty: none
  /// do.
  std::vector<at::Tensor> example_arguments;
  /// Bound tensors that the program does not keep alive: whoever calls it does, for the length of a run.
  std::unordered_set<const c10::TensorImpl*> kept_elsewhere;
  std::string not_symbolic;  ///< Told as driver::Facts::not_symbolic.
};

struct MemoryInfo {
  int64_t arena_bytes = 0;      ///< Planned memory of intermediates, one arena per concurrent call.
  int64_t unplanned_bytes = 0;  ///< What they would take without reuse.
  int64_t output_bytes = 0;     ///< Allocated at every call.
  int64_t code_bytes = 0;
  int64_t packed_bytes = 0;      ///< Copies of weights, shared with other programs.
  int64_t graph_bytes = 0;       ///< Kept for inspection.
  int64_t graph_used_bytes = 0;  ///< Of those, what lies in nodes, types, texts and their tables.
  int64_t graph_peak_bytes = 0;  ///< The most that the graph held while it was traced and rewritten.
};

/// What became of ProgramOptions::cuda_graphs.
struct CudaGraphFacts {
  std::string skipped;   ///< Why calls are not recorded; empty: they are, or nobody asked for it.
  int64_t graphs = 0;    ///< That one recording consists of: several, if steps run between them.
  int64_t recorded = 0;  ///< Recordings made,
  int64_t replayed = 0;  ///< calls that were replays,
  int64_t plain = 0;     ///< and calls that ran as ever: to warm up, on another stream, while results are in use.
  std::vector<std::string> apart;  ///< Why steps run between the graphs, one line a step.
};

/// What became of ProgramOptions::max_autotune for one kernel on a GPU that has several forms, or one product of
/// matrices there, for which cuBLASLt has several algorithms.
struct KernelTuningFacts {
  std::string kernel;      ///< Its name, in the form that is chosen; of a product "aten::mm 64x512x2048 f32".
  std::string chosen;      ///< "threads=auto vector=32 vectors=4 kept=64 rows=auto"; empty: not measured yet.
  bool was_known = false;  ///< From an earlier measurement of its like.
  std::vector<std::pair<std::string, int64_t>> measured;  ///< Nanoseconds of each form.
  std::string failed;                                     ///< Why nothing could be measured.
};

/// run() may be called from several threads at once. What it computes never changes after compile(), nor how, but
/// for convolutions where the process switches to deterministic algorithms, or oneDNN off
/// (runtime/program_layouts.h), and for what max_autotune measures.
class Program {
 public:
  /// passes -> lowering -> machine code -> binding. Times are added to `times`.
  static std::shared_ptr<Program> compile(capture::Trace trace, const ProgramOptions& options = {},
                                          PhaseTimes times = {});

  /// Lowers and compiles a graph whose sizes are expressions, once for all values of its symbols that keep its
  /// guards afterwards. Throws loops::NotSymbolic where that cannot be (driver::compile_symbolic).
  /// \param writable  Graph inputs that share memory with no other.
  static std::shared_ptr<const driver::SymbolicArtifact> compile_symbolic(ir::Graph& graph,
                                                                          const ProgramOptions& options = {},
                                                                          std::vector<bool> writable = {},
                                                                          PhaseTimes times = {});
  /// The program for these values of the symbols: only binds, no code is made. `trace` is of these sizes; of its
  /// graph the inputs, outputs and mutations are looked at, whether or not passes have been over it.
  /// Throws loops::NotSymbolic where inputs overlap that the artifact has apart.
  static std::shared_ptr<Program> compile_at(capture::Trace trace, const driver::SymbolicArtifact& artifact,
                                             std::span<const int64_t> symbols, const ProgramOptions& options = {});

  /// Runs the program on one tensor per graph argument, in order. Returns one tensor per OutputRecipe.
  /// The caller has checked the arguments (check_arguments).
  /// Throws UserError (index kind) when an index was out of range, before any input was written that
  /// eager had not written; on a GPU a later
  /// call throws LateError.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments) const;
  /// The same without vectors: `arguments` points to argument_count() tensors, `results` to room for
  /// result_count().
  void run(const at::Tensor* const* arguments, at::Tensor* results) const;
  /// Likewise, for arguments that nobody else needs: each is let go of when it was read for the last time.
  void run_consuming(std::vector<at::Tensor>& arguments, at::Tensor* results) const;
  size_t argument_count() const noexcept;
  size_t result_count() const noexcept;
  /// It moves so much data, or calls so much code of others, that a caller should let go of Python's lock.
  bool is_long() const noexcept;
  /// Eager's results would require grad now: a floating result, grad mode on, and an input that requires grad.
  bool loses_grad(const at::Tensor* const* arguments) const noexcept;
  /// Throws UserError naming the first argument whose dtype, shape, strides, device or layout is not what was
  /// traced.
  /// `labels`, if given, name the arguments: "argument 1 (`mask`)".
  void check_arguments(const std::vector<at::Tensor>& arguments, const std::vector<std::string>& labels = {}) const;
  /// The cheap test that check_arguments explains.
  bool accepts(const at::Tensor* const* arguments) const noexcept;

  /// stage: "graph" (after passes), "traced" (before), "loops", "llvm", "asm",
  /// "sass" (what GPUs run; needs nvdisasm, empty for kernels on the CPU). Throws UserError on another word.
  std::string code(std::string_view stage) const;
  /// What happened in its compilation.
  const driver::Facts& facts() const;
  /// By step of facts(): the shortest time that it took in the calls that are measured, in nanoseconds (the 2nd,
  /// 3rd, 5th, 9th, 17th and 33rd); 0: none yet, or it runs on a GPU, behind the call's back.
  std::vector<int64_t> step_times() const;
  const loops::PlanOf<int64_t>& plan() const;
  MemoryInfo memory() const;
  CudaGraphFacts cuda_graphs() const;
  /// By kernel on a GPU that has several forms, with max_autotune.
  std::vector<KernelTuningFacts> kernel_tuning() const;
  const capture::Trace& trace() const;

  ~Program();
  class Impl;     ///< runtime/program_impl.h
  class Layouts;  ///< runtime/program_layouts.h

 private:
  /// \param build  of the Impl, given the arguments that were traced: compiles, or takes what was, and binds.
  template <typename Build>
  static std::shared_ptr<Program> make(capture::Trace trace, const ProgramOptions& options, Build&& build);
  Program(std::unique_ptr<Impl> impl, std::unique_ptr<Layouts> layouts);
  const Impl& current() const;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<Layouts> layouts_;       ///< Null if there is one way only.
  std::unique_ptr<GraphedCalls> graphed_;  ///< Null if nobody asked for it.
};

/// Lets the tracer read values: sets capture's evaluate hook. Once per process.
void install_evaluate_hook();

/// What reading a value throws under RefuseValues.
class ValueRead : public UserError {
 public:
  using UserError::UserError;
};

/// A kernel on a GPU has found, some time ago, what it was given to be wrong: an index out of range. As in eager,
/// it is told when somebody looks, by which time results of that call, and inputs that it writes, have been
/// computed with it.
class LateError : public UserError {
 public:
  using UserError::UserError;
};

/// While it lives, a function traced on this thread that reads a tensor's value gets a ValueRead, where nothing may
/// be frozen. A function that catches it leaves the warning in its Trace. Nests.
class RefuseValues {
 public:
  RefuseValues();
  ~RefuseValues();
  RefuseValues(const RefuseValues&) = delete;
  RefuseValues& operator=(const RefuseValues&) = delete;

 private:
  bool outer_;
};

}  // namespace braze::runtime
