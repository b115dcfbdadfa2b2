// compile/facts.h: what happened in a compilation, in plain values. Logs, explanations, counters and the inspection
// of programs read it, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "compile/convolution_layout.h"
#include "support/phases.h"

namespace braze::driver {

/// A kernel, for people.
struct KernelFacts {
  std::string name;                ///< "add_layer_norm_3f2a"
  std::vector<std::string> fused;  ///< Graph nodes, in order: "%12 = add", ...
  int64_t bytes_read = 0, bytes_written = 0;
  size_t code_bytes = 0;
  int launches = 0;  ///< How many steps run it.
};

struct StepFacts {
  std::string kind;    ///< "kernel" or "call"
  std::string name;    ///< The kernel's name, or "aten::addmm".
  std::string source;  ///< The user's "file:line" of its first node.
};

struct Facts {
  PhaseTimes times;
  codegen::CompileStats code;   ///< How many kernels were compiled, or came from memory or disk.
  size_t nodes_traced = 0;      ///< Of the graph as it came,
  size_t nodes = 0;             ///< and behind the passes.
  int64_t arena_bytes = 0;      ///< Planned memory of intermediates, one arena per concurrent call.
  int64_t unplanned_bytes = 0;  ///< What they would take without reuse.
  int64_t output_bytes = 0;     ///< Allocated at every call.
  int64_t code_bytes = 0;
  /// Why it is for sizes that are numbers although they vary: a program is then compiled for each set of them.
  /// Empty: they do not vary, or it is for all of them.
  std::string not_symbolic;
  ConvolutionLayout convolutions = ConvolutionLayout::traced;  ///< In which they are computed.
  std::vector<KernelFacts> kernels;                            ///< By Plan::kernels.
  std::vector<StepFacts> steps;                                ///< By Plan::steps.
};

}  // namespace braze::driver
