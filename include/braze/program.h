// braze/program.h: a compiled program, to be looked at.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "braze/error.h"
#include "braze/export.h"

namespace braze {

namespace runtime {
class Program;
}

/// A kernel that braze generated.
struct Kernel {
  std::string name;                ///< "add_layer_norm_3f2a"
  std::vector<std::string> fused;  ///< The graph's nodes in it, in order: "%12 = add", ...
  int64_t bytes_read = 0;          ///< In a run of the kernel.
  int64_t bytes_written = 0;
  int64_t code_bytes = 0;  ///< Machine code.
  int launches = 0;        ///< How many steps run it.
};

/// A step of a program, in the order in which steps run.
struct Step {
  std::string kind;    ///< "kernel" or "call" (an ATen operator).
  std::string name;    ///< The kernel's name, or "aten::addmm".
  std::string source;  ///< "file:line" of the user's program, where it is known; empty for C++ functions.
};

/// Bytes by what they are for.
struct Memory {
  int64_t arena_bytes = 0;       ///< Intermediates, once for each call that runs at the same time.
  int64_t unplanned_bytes = 0;   ///< What they would take if no memory were used twice.
  int64_t output_bytes = 0;      ///< Allocated by every call.
  int64_t code_bytes = 0;        ///< Machine code.
  int64_t packed_bytes = 0;      ///< Copies of weights (Options::prepack_weights), shared with other programs.
  int64_t graph_bytes = 0;       ///< Kept to be looked at.
  int64_t graph_used_bytes = 0;  ///< Of those, what lies in nodes, types, texts and their tables.
  int64_t graph_peak_bytes = 0;  ///< The most that the graph held while it was traced and rewritten.
};

/// How long a phase of the compilation took, and what braze's own code and LLVM asked the heap for meanwhile (all
/// blocks, whether they were freed again or not).
struct Phase {
  std::string name;  ///< "capture", "passes", "loops", ...; "a/b" is a part of "a"; "total" comes last.
  int64_t nanoseconds = 0;
  int64_t allocations = 0;
  int64_t allocated_bytes = 0;
};

/// A compiled program. Copies are handles on the same program, which never changes. Every member may be called from
/// several threads at once.
class BRAZE_API Program {
 public:
  /// Runs the program on one tensor for each distinct tensor that was traced, in order.
  /// \returns  the tensors of the traced function's result, each distinct one once.
  /// \throws Error if a dtype, shape, layout or device is not what was traced.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& arguments) const;

  std::string graph() const;  ///< After all passes. The same as code("graph").
  /// The program as text after a stage: "traced", "graph", "loops", "llvm", "asm" or "sass" (what a
  /// GPU runs; needs the CUDA toolkit's nvdisasm, empty for kernels on the CPU).
  /// \throws Error for another word.
  std::string code(std::string_view stage) const;
  std::vector<Kernel> kernels() const;
  std::vector<Step> steps() const;
  std::vector<Phase> compile_times() const;
  Memory memory() const;
  /// What tracing has to say, each with a reason: values of tensors that the function read, and that every later
  /// call takes from the examples. Programs of compile() have none.
  std::vector<std::string> warnings() const;

  explicit Program(std::shared_ptr<const runtime::Program> program) : program_(std::move(program)) {}

 private:
  std::shared_ptr<const runtime::Program> program_;
};

}  // namespace braze
