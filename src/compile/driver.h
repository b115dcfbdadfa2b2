// compile/driver.h: from a graph to what can be run: passes, layouts, lowering, machine code. The only such way:
// programs and braze-opt take it.
//
// (The namespace is not called `compile`, because braze::compile is the function of the C++ face.)
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiler.h"
#include "compile/facts.h"
#include "ir/graph.h"
#include "loops/plan.h"
#include "loops/schedule/gpu/tuning.h"
#include "loops/symbolic_plan.h"

namespace braze::driver {

/// In order; each is all of the ones before and its own.
enum class Stage : uint8_t {
  passes,  ///< The graph rewritten.
  plan,    ///< Loops, library calls and memory.
  code,    ///< Machine code.
};

enum class Convolutions : uint8_t {
  as_traced,      ///< In eager's layouts.
  channels_last,  ///< In channels_last wherever that is another layout.
  cheapest,       ///< In whichever moves less memory (compile/convolution_layout.h).
};

struct Options {
  bool emulate_precision_casts = false;  ///< Round to bf16 and f16 after every operator, as eager does.
  bool fuse = true;                      ///< false: one kernel a node, to bisect a wrong result.
  bool verify = false;                   ///< Run the verifiers after every stage.
  std::vector<bool> writable = {};       ///< As in loops::LoweringOptions.
  Convolutions convolutions = Convolutions::as_traced;
  codegen::CompileOptions code = {};  ///< Its target is that of values on the CPU, in lowering too.
  Stage last = Stage::code;           ///< Where to stop.
  bool keep_text = false;             ///< Artifact::traced_text is wanted.
  bool tunes = false;                 ///< Artifact::others is wanted, where kernels run on a GPU.
};

/// A plan of the same graph whose kernels on a GPU are shaped by other figures.
struct OtherPlan {
  loops::gpu::Tuning tuning;
  loops::Plan plan;
};

/// Self-contained: it points into no graph. Immutable once made.
struct Artifact {
  loops::Plan plan;
  std::vector<std::shared_ptr<const codegen::CompiledKernel>> code;  ///< By Plan::kernels,
  std::vector<const Target*> targets;                                ///< and what each is for. They live for ever.
  Facts facts;
  std::string traced_text;    ///< The graph as it came, with the user's lines, where it is rewritten.
  bool rewrote_graph = true;  ///< compile() has rewritten the graph; else it knew from the disk what becomes of it.
  std::vector<OtherPlan> others;  ///< What compile/kernel_variants.h takes kernels from. No code is made for them.
};

/// What a graph whose sizes are expressions becomes: plan and machine code for all values of its symbols. Points
/// into no graph. Immutable once made.
struct SymbolicArtifact {
  loops::SymbolicPlan plan;
  std::vector<std::shared_ptr<const codegen::CompiledKernel>> code;        ///< By SymbolicPlan::kernels(),
  std::vector<const Target*> targets;                                      ///< and what each is for.
  Facts facts;                                                             ///< For the examples.
  std::vector<std::pair<loops::gpu::Tuning, loops::SymbolicPlan>> others;  ///< As Artifact's.

  /// For these values of the symbols, by slot, which keep the guards: microseconds, as nothing is lowered or
  /// compiled.
  Artifact at(std::span<const int64_t> symbols) const;
};

/// Makes an artifact of `graph` that is right for all values of its symbols that keep its plan's guards: those of
/// the graph, to which lowering may have added (loops::lower_symbolic). The graph is rewritten, unless what becomes
/// of it was found on disk (compile/artifact_cache.h). Throws loops::NotSymbolic where some operator has no form
/// for all sizes: the graph is then to be instantiated and compiled for each.
SymbolicArtifact compile_symbolic(ir::Graph& graph, const Options& options = {}, PhaseTimes times = {});

/// Makes an artifact of `graph`, which is rewritten, unless what becomes of it was found on disk: Artifact::
/// rewrote_graph. `times` are those of what came before.
Artifact compile(ir::Graph& graph, const Options& options = {}, PhaseTimes times = {});

/// The same of a graph that compile() has rewritten: another way to run it.
Artifact compile_rewritten(const ir::Graph& graph, const Options& options = {}, PhaseTimes times = {});

}  // namespace braze::driver
