// loops/plan.h: a lowered graph: fused kernels and library calls in order, over planned buffers.
//
// The plan knows neither torch nor machine code, and points into no graph: it is plain values that print and parse
// (below). runtime/ binds it: buffers become memory, kernels become function pointers
// (codegen/compiler.h), calls become ATen calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/library_call.h"
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

/// A piece of memory that holds one realised value (or, for `cat`, several in their places). `Number`: of a plan
/// int64_t; loops/symbolic_plan.h has plans of other numbers.
template <typename Number>
struct PlanBufferOf {
  BufferKind kind = BufferKind::temporary;
  uint32_t index = 0;  ///< input and mutated: which graph input; output: dense number among outputs.
  Number bytes = 0;
  Number offset = 0;     ///< temporary: byte offset in the arena, a multiple of 64 unless part of another.
  int32_t part_of = -1;  ///< Buffer that it is part of (loops/placement.h), of a smaller index.
  /// What it holds, and how that is stored: as the value's type says where a caller sees the memory. Scratch is
  /// bytes.
  ir::DType dtype = ir::DType::u8;
  ir::Device device = {};
  std::vector<Number> sizes, strides;
  bool zeroed = false;  ///< output of a CPU: the system hands it out full of zeros, and nobody writes those.
};
using PlanBuffer = PlanBufferOf<int64_t>;

/// A strided window onto a buffer: what an ATen call or a caller gets to see. Sizes and strides in elements.
template <typename Number>
struct ViewOf {
  uint32_t buffer = 0;
  ir::DType dtype = ir::DType::f32;
  std::vector<Number> sizes, strides;
  Number offset = 0;
  bool operator==(const ViewOf&) const = default;
};
using View = ViewOf<int64_t>;

template <typename Number>
struct KernelStepOf {
  uint32_t kernel = 0;                       ///< Into Plan::kernels.
  std::vector<uint32_t> buffers;             ///< Plan buffer of each kernel parameter.
  std::vector<Number> origins;               ///< Where in each it begins, in elements (loops/origins.h).
  std::vector<ir::Number> scalars;           ///< Value of each kernel scalar,
  std::vector<Number> symbols;               ///< and of each kernel symbol.
  std::vector<std::string> fused;            ///< The graph's nodes that it computes, in order: "%12 = add".
  Number bytes_read = 0, bytes_written = 0;  ///< Each element of each operand counted once.
};
using KernelStep = KernelStepOf<int64_t>;

template <typename Number>
struct CallStepOf {
  ir::LibraryCall call;
  std::vector<ViewOf<Number>> operands;  ///< Laid out as the call requires (loops/layout.h).
  std::vector<int32_t> results;          ///< Plan buffer of each result; -1: unused or undefined.
  bool writes_into = false;  ///< The result is computed into memory of the plan; else the call allocates.
};
using CallStep = CallStepOf<int64_t>;

/// How a kernel runs beside the steps before it (loops/regions.h).
enum class Join : uint8_t {
  alone,   ///< It begins a parallel region of its own; so does every library call.
  beside,  ///< In the region of the step before, at the same time as what ran since the last barrier.
  after,   ///< In the region of the step before, behind a barrier.
};

enum class StepKind : uint8_t { kernel, call };

template <typename Number>
struct StepOf {
  using Kind = StepKind;
  Kind kind;
  Join join = Join::alone;
  std::string source;  ///< The user's "file:line" of its first node, empty if unknown.
  KernelStepOf<Number> kernel;
  CallStepOf<Number> call;
};
using Step = StepOf<int64_t>;

/// What is copied into a graph input at the end; a view of a buffer of kind `mutated` is already in place.
template <typename Number>
struct PlanMutationOf {
  uint32_t input = 0;
  ViewOf<Number> view;
};
using PlanMutation = PlanMutationOf<int64_t>;

template <typename Number>
struct PlanOf {
  std::vector<PlanBufferOf<Number>> buffers;
  std::vector<std::shared_ptr<Kernel>> kernels;  ///< No two with the same structural hash.
  std::vector<Hash128> kernel_hashes;
  std::vector<StepOf<Number>> steps;
  /// Of each graph output: a buffer of kind `output` or `call` of its own, never an input's and never shared, laid
  /// out as the value's type says. (Aliasing between results is the tracer's: capture/trace.h, OutputRecipe.)
  std::vector<ViewOf<Number>> outputs;
  std::vector<PlanMutationOf<Number>> mutations;  ///< In order, after the last step.
  int64_t arena_bytes = 0;
  int64_t unplanned_bytes = 0;  ///< What temporaries would take without reuse.
};
using Plan = PlanOf<int64_t>;

/// Of a kernel in a plan. Code of a GPU is none of a CPU, whether or not a loop says what runs it.
Hash128 kernel_hash(const Kernel& kernel, ir::DeviceKind device);

/// Sets kernel_hashes by the kernels and the steps, which may not have been verified yet.
template <typename Number>
void hash_kernels(PlanOf<Number>& plan) {
  std::vector<ir::DeviceKind> devices(plan.kernels.size(), ir::DeviceKind::cpu);
  for (const StepOf<Number>& step : plan.steps) {
    if (step.kind != StepKind::kernel || step.kernel.kernel >= devices.size()) continue;
    if (step.kernel.buffers.empty() || step.kernel.buffers[0] >= plan.buffers.size()) continue;
    devices[step.kernel.kernel] = plan.buffers[step.kernel.buffers[0]].device.kind;
  }
  plan.kernel_hashes.clear();
  for (size_t k = 0; k < devices.size(); ++k)
    plan.kernel_hashes.push_back(kernel_hash(*plan.kernels[k], devices[k]));
}

struct LoweringOptions {
  bool fuse = true;                 ///< false: one kernel a node, to bisect a wrong result.
  bool reuse_memory = true;         ///< false: every temporary has memory of its own.
  std::vector<bool> writable = {};  ///< Graph inputs that share memory with no other: results may be stored there.
  LayoutOverrides layouts = {};     ///< Calls that ask for other layouts than their nodes say.
  Targets targets = {};
};

/// Lowers a graph that has been through passes/pipeline. Throws InternalError on ops it has no lowering for (only
/// composites that were not opened), UserError on sizes that are expressions: loops/symbolic_plan.h lowers those.
Plan lower(const ir::Graph& graph, const LoweringOptions& options = {});

/// The whole of a buffer.
template <typename Number>
ViewOf<Number> whole(const PlanOf<Number>& plan, uint32_t buffer) {
  const PlanBufferOf<Number>& memory = plan.buffers.at(buffer);
  return {buffer, memory.dtype, memory.sizes, memory.strides, 0};
}
/// Elements from the first to the end of the last, gaps included.
int64_t span_of(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Text: the kernels, then
///
///   plan {
///     arena 256 unplanned 512                  bytes, and what they would be without reuse
///     #0 = input 0 : f32[4,8]                  of graph input 0
///     #1 = temporary 128 : f32[4,8]            at byte 128 of the arena
///     #2 = output 0 : f32[8,8]
///     #3 = part 128 of #2 : f32[4,8]           from byte 128 of buffer 2
///     region {
///       launch @exp_1f2e3d4c(#0, #1[64..], 2.5) symbols=[4,32] reads=128 writes=128 fused=['%0 = exp']
///       source='model.py:3' barrier launch ...
///     }
///     call 'aten::mm'(#1, #0 as f32[8,4]{1,8} + 16) into -> #2
///     mutate 0, #1                             copied into graph input 0 at the end
///     return #2
///   }
///
/// print -> parse -> print gives the same text.
std::string print(const Plan& plan);
Plan parse_plan(std::string_view text);  ///< Throws UserError with line and column.
/// Every number names something that exists, and every access lies in its buffer. Throws InternalError.
void verify(const Plan& plan);

}  // namespace braze::loops
