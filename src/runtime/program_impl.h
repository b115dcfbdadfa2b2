// runtime/program_impl.h: a bound program: what every step needs is worked out once, at compile time.
//
// What differs between two concurrent calls lives in a Frame; everything else here never changes after compile().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/driver.h"
#include "runtime/call.h"
#include "runtime/device/device.h"
#include "runtime/frame.h"
#include "runtime/geometry.h"
#include "runtime/kernel_tuning.h"
#include "runtime/program.h"
#include "runtime/step_clock.h"

namespace braze::runtime {

/// What the tracer recorded was already below autograd and autocast.
inline c10::DispatchKeySet recorded_keys() {
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
}

/// A kernel parameter whose address is known only when the program runs.
struct Patch {
  uint32_t slot;    ///< Into Frame::pointers.
  uint32_t buffer;  ///< Into Frame::addresses.
  int64_t offset;   ///< Bytes.
};

/// Kernels that run in one parallel region.
struct BoundRegion {
  std::unique_ptr<Region> region;
  std::vector<Patch> patches;
  bool checks = false;  ///< Holds a statement that can fail: look at the status afterwards.
};

/// A device that the program has memory or kernels on.
struct BoundDevice {
  c10::Device place;
  std::unique_ptr<Device> device;
  bool checks = false;  ///< A kernel there may report late that it has failed.
  /// The part of the plan's arena that lies there, in bytes, and what points into it.
  int64_t begin = 0, end = 0;
  std::vector<uint32_t> temporaries;                    ///< Plan buffers.
  std::vector<std::pair<uint32_t, uint64_t>> pointers;  ///< (slot, offset) of temporaries among pointers.
  std::vector<uint32_t> views;                          ///< Prebuilt ones.
};

/// A plan buffer whose memory a device allocates.
struct BoundOutputBuffer {
  uint32_t buffer;
  const Device* device;
  bool zeroed;
};

struct BoundStep {
  bool is_region;
  uint32_t index;                         ///< Into regions or calls.
  std::vector<BoundOutputBuffer> begins;  ///< That it is the first to write to, and that are allocated only then.
  std::vector<uint32_t> releases;         ///< Buffers of kind `call` that nobody reads afterwards.
  std::vector<uint32_t> consumes;         ///< Arguments that nobody reads afterwards.
  uint32_t planned = 0;                   ///< The step of the plan that it is, or that its first kernel is.
};

/// A graph input of which it counts where it begins in its storage: views as larger elements, as_strided().
struct InputPlace {
  uint32_t input;
  int64_t modulus, remainder;  ///< In bytes.
};

/// What run() does with one graph input.
struct BoundInput {
  Geometry expected;
  bool bound = false;        ///< A parameter or constant: looked at on every call.
  bool written = false;      ///< A kernel writes into it, or a result is copied into it.
  uint32_t argument = 0;     ///< If not bound: which argument.
  int64_t alignment = 1;     ///< That kernels rely on, in bytes.
  uint32_t alias_class = 0;  ///< The first input with which it shared storage while tracing; itself if none.
  int64_t alias_offset = 0;  ///< Bytes from that input's first element to this one's.
  int64_t span = 0;          ///< Bytes from its first element to the end of its last one.
  bool is_shared = false;    ///< Of an alias class with several inputs, one of which is written.
};

struct BoundOutput {
  uint32_t buffer;
  bool whole;  ///< The buffer's own tensor is the result.
  loops::View view;
};

struct BoundMutation {
  uint32_t input;
  bool in_place;      ///< A kernel has written it already.
  bool through_copy;  ///< The source is an input that another mutation overwrites.
  OperandRef source;
};

class Program::Impl {
 public:
  Impl(std::shared_ptr<const capture::Trace> of, ProgramOptions with)
      : traced(std::move(of)), trace(*traced), options(std::move(with)) {}

  const std::shared_ptr<const capture::Trace> traced;  ///< Shared by all that is lowered from it.
  const capture::Trace& trace;
  const ProgramOptions options;
  bool graph_is_rewritten = true;
  driver::Artifact artifact;
  const loops::Plan& plan = artifact.plan;

  std::vector<BoundInput> inputs;
  std::vector<uint32_t> argument_inputs;  ///< Graph input of each argument.
  std::vector<uint32_t> bound_inputs;
  std::vector<InputPlace> places;                            ///< Few, if any.
  std::vector<std::pair<uint32_t, uint32_t>> input_buffers;  ///< (plan buffer, graph input).
  std::vector<BoundOutputBuffer> output_buffers;             ///< Allocated when a call begins.
  std::vector<uint32_t> part_buffers;                        ///< Plan buffers that lie in those.
  /// By plan buffer: of the tensor that holds it (not for temporaries that lie in the arena).
  std::vector<Geometry> buffer_geometry;
  std::vector<bool> in_arena;      ///< By plan buffer: temporaries that lie there,
  std::vector<bool> stands_alone;  ///< and those that do not.
  std::vector<BoundRegion> regions;
  std::vector<std::unique_ptr<BoundCall>> calls;
  std::vector<BoundStep> steps;
  std::vector<BoundOutput> outputs;
  std::vector<BoundMutation> mutations;
  std::vector<PrebuiltView> prebuilt;  ///< Built once per frame.
  std::vector<BoundDevice> devices;    ///< One or two, seldom more.
  uint32_t pointer_count = 0;
  int64_t work_bytes = 0;  ///< Moved by all kernels of one run.
  bool has_calls = false;
  bool any_floating_output = false;
  bool any_written =
      false;  ///< Some input is changed, or made another view of in place: aliasing between inputs matters.
  std::vector<bool> writable;  ///< By input: kernels may write there.
  bool reports_late = false;   ///< Some device does: errors of earlier calls are looked for.
  mutable FramePool frames;
  /// Of the plan's steps. Null where they run after the call has returned.
  std::unique_ptr<StepClock> clock;
  std::unique_ptr<KernelTuning> tuning;  ///< Null if nobody asked for it, or no kernel has several forms.

  /// Compiles the trace's graph, which is rewritten, and binds it. The arguments that were traced tell which inputs
  /// share storage.
  void build(driver::Convolutions convolutions, const std::vector<at::Tensor>& example_arguments, PhaseTimes times);
  /// Binds what was compiled for all sizes.
  void build_of(driver::Artifact compiled, const std::vector<at::Tensor>& example_arguments);
  /// The same for calls that `other`, of the same trace, may serve as well.
  void build_like(const Impl& other, driver::Convolutions convolutions);
  /// What runs now, for telling about it.
  const driver::Artifact& running() const;
  /// The graph behind the passes.
  std::string rewritten_text() const;
  /// \param owned  the arguments, if they may be let go of on the way; else null.
  void run(const at::Tensor* const* arguments, at::Tensor* results, at::Tensor* owned) const;

  // The parts of run(), which recordings of calls take one by one (runtime/graphed_calls.h).

  std::unique_ptr<Frame> make_frame() const;
  void load_arguments(Frame& frame, const at::Tensor* const* arguments) const;
  /// Where they lie. An input that kernels need aligned, and that is not, is copied.
  void load_inputs(Frame& frame, const at::Tensor* const* arguments) const;
  void load_input(Frame& frame, uint32_t buffer, uint32_t input) const;
  void check_aliasing(Frame& frame) const;
  /// \param arena  Of on.device->allocate_temporaries(on.end - on.begin), or longer. Whoever calls keeps it.
  void place_temporaries(const BoundDevice& on, const at::Tensor& arena, Frame& frame) const;
  /// \param all  also those that steps would allocate
  void allocate_outputs(Frame& frame, bool all) const;
  /// \pre recorded_keys() are excluded, and all of the above was done
  /// \param owned    as for run()
  /// \param is_told  a profiler is told of each step: is_profiled(), which is asked once a call
  void run_steps(Frame& frame, std::span<const BoundStep> some, at::Tensor* owned, bool is_told) const;
  /// What steps have computed is copied into the inputs that the program writes.
  void write_back(Frame& frame, const at::Tensor* const* arguments) const;
  /// Throws LateError if a kernel has reported that it failed, in this call or an earlier one.
  void check_late() const;
  void count_writes(const at::Tensor* const* arguments) const;
  /// From Frame::owned, which may be left empty.
  void make_results(const Frame& frame, const at::Tensor* const* arguments, at::Tensor* results) const;

 private:
  driver::Options compile_options(driver::Convolutions convolutions) const;
  void bind();
  void bind_inputs(const std::vector<at::Tensor>& example_arguments);
  void bind_buffers();
  void bind_kernel(const loops::KernelStep& step, loops::Join join);
  void bind_call(const loops::CallStep& step);
  void bind_results();
  void bind_releases(const std::vector<uint32_t>& bound_steps);
  void bind_consumed(const std::unordered_map<uint32_t, uint32_t>& last_use, uint32_t kept);
  OperandRef operand(const loops::View& view);
  BoundDevice& on(ir::Device place);  ///< Adds it.
  /// The graph input that the view lies in, if copies of it may be kept: not if the program writes there.
  std::optional<uint32_t> weight_of(const loops::View& view) const;
  bool is_whole(const loops::View& view) const;

  /// Measures each kernel and call by the clock, if it is to be measured, and tells profilers.
  void run_steps_watched(Frame& frame, std::span<const BoundStep> some, at::Tensor* owned, bool is_told,
                         bool is_measured) const;
  /// Measures forms of each kernel behind it. \pre tuning->begins() was true
  void run_steps_tuned(Frame& frame, std::span<const BoundStep> some, at::Tensor* owned) const;
  void point(const BoundRegion& bound, Frame& frame) const;
  void finish_step(const BoundStep& step, Frame& frame, at::Tensor* owned) const;
  void allocate_temporaries(const BoundDevice& on, std::vector<at::Tensor>& arenas, Frame& frame) const;
  at::Tensor make_result(const capture::OutputRecipe& recipe, const Frame& frame,
                         const at::Tensor* const* arguments, uint64_t& given) const;
  at::Tensor graph_output(const Frame& frame, uint32_t index) const;
  const at::Tensor& original(uint32_t input, const at::Tensor* const* arguments) const;
};

/// Throws UserError that says how `tensor`, which `what` names, differs from what was traced, and what to do.
[[noreturn]] void fail_geometry(std::string_view what, const Geometry& expected, const at::Tensor& tensor,
                                std::string_view advice);

}  // namespace braze::runtime
