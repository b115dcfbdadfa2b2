// loops/plan.h: a lowered graph: fused kernels and library calls in order, over planned buffers.
//
// The plan knows neither torch nor machine code. runtime/ binds it: buffers become memory, kernels become function
// pointers (codegen/compiler.h), calls become ATen calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "loops/kernel.h"
#include "loops/layout.h"
#include "target/target.h"

namespace braze::loops {

enum class BufferKind : uint8_t {
  input,      ///< Memory of graph input `index`.
  temporary,  ///< Part of the program's arena, from `offset`.
  output,     ///< Freshly allocated at every call; returned (or holds a returned view).
  call,       ///< Allocated by the library call that defines it.
  part,       ///< Of the output, or part of one, `part_of`: from its byte `offset`.
  mutated,    ///< A kernel may write straight into graph input `index` (a mutation whose old contents are not read
              ///< later).
};

/// A piece of memory that holds one realised value (or, for `cat`, several in their places).
struct PlanBuffer {
  BufferKind kind = BufferKind::temporary;
  uint32_t index = 0;  ///< input and mutated: which graph input; output: dense number among outputs.
  int64_t bytes = 0;
  int64_t offset = 0;    ///< temporary: byte offset in the arena, a multiple of 64 unless part of another.
  int32_t part_of = -1;  ///< Buffer that it is part of (loops/placement.h), of a smaller index.
  const ir::Value* value = nullptr;  ///< What it holds; its type gives dtype and sizes. Null: scratch.
  std::vector<int64_t> strides;      ///< In which the value is stored; its type's where a caller sees the memory.
};

/// A strided window onto a buffer: what an ATen call or a caller gets to see. Sizes and strides in elements.
struct View {
  uint32_t buffer = 0;
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

struct KernelStep {
  uint32_t kernel = 0;                 ///< Into Plan::kernels.
  std::vector<uint32_t> buffers;       ///< Plan buffer of each kernel parameter.
  std::vector<int64_t> origins;        ///< Where in each it begins, in elements (loops/origins.h); empty: at 0.
  std::vector<ir::Number> scalars;     ///< Value of each kernel scalar.
  std::vector<const ir::Node*> fused;  ///< The graph nodes it computes, in order.
  int64_t bytes_read = 0, bytes_written = 0;  ///< Each element of each operand counted once.
  std::string description;                    ///< "add+mean+var+layer_norm"
};

struct CallStep {
  const ir::Node* node = nullptr;
  std::vector<View> operands;    ///< Of each operand of the node, laid out as the call requires (loops/layout.h).
  std::vector<int32_t> results;  ///< Plan buffer of each result; -1: unused or undefined.
};

/// How a kernel runs beside the steps before it (loops/regions.h).
enum class Join : uint8_t {
  alone,   ///< It begins a parallel region of its own; so does every library call.
  beside,  ///< In the region of the step before, at the same time as what ran since the last barrier.
  after,   ///< In the region of the step before, behind a barrier.
};

struct Step {
  enum class Kind : uint8_t { kernel, call } kind;
  Join join = Join::alone;
  KernelStep kernel;
  CallStep call;
};

struct Plan {
  std::shared_ptr<const ir::Graph> graph;  ///< Owns the nodes that steps point to.
  std::vector<PlanBuffer> buffers;
  std::vector<std::unique_ptr<Kernel>> kernels;  ///< No two with the same structural hash.
  std::vector<Hash128> kernel_hashes;
  std::vector<Step> steps;
  /// Of each graph output: a buffer of kind `output` or `call` of its own, never an input's and never shared, laid
  /// out as the value's type says. (Aliasing between results is the tracer's: capture/trace.h, OutputRecipe.)
  std::vector<View> outputs;
  std::vector<View> mutations;  ///< What to copy into each Mutation's input after the last step; kind
                                ///< `mutated` buffers are already in place.
  int64_t arena_bytes = 0;
  int64_t unplanned_bytes = 0;  ///< What temporaries would take without reuse.
};

struct LoweringOptions {
  bool fuse = true;                 ///< false: one kernel a node, to bisect a wrong result.
  bool reuse_memory = true;         ///< false: every temporary has memory of its own.
  std::vector<bool> writable = {};  ///< Graph inputs that share memory with no other: results may be stored there.
  LayoutOverrides layouts = {};     ///< Calls that ask for other layouts than their nodes say.
  const Target* target = &Target::host();  ///< Never null.
};

/// Lowers a graph that has been through passes/pipeline. Throws InternalError on ops it has no lowering for (only
/// composites that were not opened).
Plan lower(std::shared_ptr<const ir::Graph> graph, const LoweringOptions& options = {});

/// Kernels in text with a line above each that names the step's nodes; calls as one line.
std::string print(const Plan& plan);

}  // namespace braze::loops
