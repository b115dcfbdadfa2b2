// runtime/run.cpp: one call of a program.
//
// Budget: a program of one small kernel costs one allocation (its result) and about 300 ns in all; what does not
// change between calls was worked out by bind.cpp. Nothing here needs Python.
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "loops/operations.h"
#include "loops/step_shapes.h"
#include "runtime/profiler_range.h"
#include "runtime/program_impl.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

/// A frame for the length of one call; goes back to the pool empty, also after an exception.
class FrameLease {
 public:
  FrameLease(FramePool& pool, std::unique_ptr<Frame> frame) : pool_(pool), frame_(std::move(frame)) {}
  ~FrameLease() {
    frame_->clear();
    pool_.put(std::move(frame_));
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  Frame& operator*() { return *frame_; }

 private:
  FramePool& pool_;
  std::unique_ptr<Frame> frame_;
};

/// Where a tensor begins in its storage, in bytes.
int64_t place_of(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

/// In eager's words.
[[noreturn, gnu::noinline, gnu::cold]] void fail(int64_t status) {
  if (status == loops::status_of(ir::Op::divisor))
    throw UserError("ZeroDivisionError: an integer is divided by zero");
  if (status == loops::status_of(ir::Op::probability))
    throw UserError("all elements of input should be between 0 and 1");
  if (status == loops::status_of(ir::Op::expected))
    throw UserError("Expected Tensor with single nonzero value, but got zero");
  throw UserError("index out of range in self", UserError::Kind::index);
}

/// What a kernel of a GPU found.
const char* finding(int64_t status) {
  if (status == loops::status_of(ir::Op::probability)) return "a probability outside of [0, 1]";
  if (status == loops::status_of(ir::Op::expected)) return "an assertion that does not hold";
  return "an index out of range";
}

[[noreturn, gnu::noinline, gnu::cold]] void fail_late(int64_t status, c10::Device place) {
  throw LateError(
      concat("CUDA error: a kernel of this program, in this call or an earlier one, found ", finding(status),
             " on ", place.str(),
             ". Kernels of a GPU run after the call that starts them has returned: to see which call it "
             "is, synchronize after each, or run with braze.compiler.set_stance(\"force_eager\")."));
}

[[noreturn, gnu::noinline, gnu::cold]] void fail_aliasing(const std::string& a, const std::string& b, bool traced) {
  throw UserError(concat("`", a, "` and `", b, "` ", traced ? "shared" : "did not share",
                         " memory when the program was traced, and now they ", traced ? "do not" : "do",
                         "; the program writes to one of them. Trace again with such arguments."),
                  UserError::Kind::value);
}

}  // namespace

std::unique_ptr<Frame> Program::Impl::make_frame() const {
  // Prebuilt tensors serve calls in and out of inference mode; made as ordinary ones they do for both.
  c10::InferenceMode ordinary(false);
  auto frame = std::make_unique<Frame>();
  frame->addresses.resize(plan.buffers.size());
  frame->pointers.resize(pointer_count);
  frame->owned.resize(plan.buffers.size());
  frame->inputs.resize(inputs.size());
  for (const PrebuiltView& view : prebuilt) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), view.geometry.bytes(),
                         at::DataPtr(nullptr, view.geometry.device), /*allocator=*/nullptr, /*resizable=*/false);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage),
        c10::DispatchKeySet(view.geometry.device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA),
        c10::scalarTypeToTypeMeta(view.geometry.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.geometry.sizes, view.geometry.strides);
    frame->views.push_back(std::move(tensor));
  }
  for (const BoundDevice& on : devices)
    if (on.device->keeps_temporaries()) allocate_temporaries(on, frame->kept_arenas, *frame);
  return frame;
}

void Program::Impl::allocate_temporaries(const BoundDevice& on, std::vector<at::Tensor>& arenas,
                                         Frame& frame) const {
  if (on.begin == on.end) return;
  place_temporaries(on, arenas.emplace_back(on.device->allocate_temporaries(on.end - on.begin)), frame);
}

void Program::Impl::place_temporaries(const BoundDevice& on, const at::Tensor& arena, Frame& frame) const {
  char* const base = static_cast<char*>(arena.unsafeGetTensorImpl()->mutable_data()) - on.begin;
  for (const uint32_t b : on.temporaries) frame.addresses[b] = base + plan.buffers[b].offset;
  for (const auto& [slot, offset] : on.pointers) frame.pointers[slot] = base + offset;
  for (const uint32_t v : on.views) {
    const loops::View& view = prebuilt[v].view;
    point_at(frame.views[v], base + plan.buffers[view.buffer].offset + view.offset * ir::byte_size(view.dtype));
  }
}

void Program::Impl::check_late() const {
  for (const BoundDevice& on : devices) {
    const int64_t status = on.checks ? on.device->take_status() : 0;
    if (status != 0) [[unlikely]]
      fail_late(status, on.place);
  }
}

const at::Tensor& Program::Impl::original(uint32_t input, const at::Tensor* const* arguments) const {
  return inputs[input].bound ? trace.bound[input] : *arguments[inputs[input].argument];
}

void Program::Impl::run(const at::Tensor* const* arguments, at::Tensor* results, at::Tensor* owned) const {
  std::optional<ProfilerRange> range;
  const bool is_told = is_profiled();
  if (is_told) [[unlikely]]
    range.emplace(concat("braze::program ", trace.graph->name()));
  c10::impl::ExcludeDispatchKeyGuard below_autograd(recorded_keys());
  std::unique_ptr<Frame> taken = frames.take();
  FrameLease lease(frames, taken ? std::move(taken) : make_frame());
  Frame& frame = *lease;
  if (reports_late) check_late();
  load_inputs(frame, arguments);
  for (const BoundDevice& on : devices)
    if (!on.device->keeps_temporaries()) allocate_temporaries(on, frame.arenas, frame);
  allocate_outputs(frame, /*all=*/false);
  run_steps(frame, steps, owned, is_told);
  if (any_written) {
    write_back(frame, arguments);
    count_writes(arguments);
  }
  make_results(frame, arguments, results);
}

namespace {

void allocate(std::span<const BoundOutputBuffer> some, const std::vector<Geometry>& geometries, Frame& frame) {
  for (const auto& [b, device, zeroed] : some) {
    if (frame.owned[b].defined()) continue;  // Recordings keep theirs.
    frame.owned[b] = device->allocate_result(geometries[b], zeroed);
    frame.addresses[b] = frame.owned[b].unsafeGetTensorImpl()->mutable_data();
  }
}

}  // namespace

void Program::Impl::allocate_outputs(Frame& frame, bool all) const {
  allocate(output_buffers, buffer_geometry, frame);
  if (all)
    for (const BoundStep& step : steps) allocate(step.begins, buffer_geometry, frame);
  for (uint32_t b : part_buffers)
    frame.addresses[b] = static_cast<char*>(frame.addresses[plan.buffers[b].part_of]) + plan.buffers[b].offset;
}

void Program::Impl::load_arguments(Frame& frame, const at::Tensor* const* arguments) const {
  for (size_t k = 0; k < argument_inputs.size(); ++k) frame.inputs[argument_inputs[k]] = arguments[k];
  for (uint32_t i : bound_inputs) {
    const at::Tensor& tensor = trace.bound[i];
    if (!inputs[i].expected.matches(tensor)) [[unlikely]]
      fail_geometry(concat("the module's `", trace.graph->inputs()[i].name, "`"), inputs[i].expected, tensor,
                    "it was changed after tracing: trace again");
    frame.inputs[i] = &tensor;
  }
}

void Program::Impl::load_inputs(Frame& frame, const at::Tensor* const* arguments) const {
  load_arguments(frame, arguments);
  if (any_written) check_aliasing(frame);
  for (const auto& [i, modulus, remainder] : places)
    if (place_of(*frame.inputs[i]) % modulus != remainder) [[unlikely]]
      throw UserError(concat("`", trace.graph->inputs()[i].name,
                             "` begins at another place in its storage than when the program was traced, which "
                             "counts for as_strided() and for views as larger elements. Trace again with such an "
                             "argument."),
                      UserError::Kind::value);
  for (const auto& [buffer, i] : input_buffers) load_input(frame, buffer, i);
}

void Program::Impl::load_input(Frame& frame, uint32_t buffer, uint32_t i) const {
  const at::Tensor& tensor = *frame.inputs[i];
  const void* address = inputs[i].written ? tensor.mutable_data_ptr() : tensor.const_data_ptr();
  if (reinterpret_cast<uintptr_t>(address) % inputs[i].alignment != 0) [[unlikely]] {
    at::Tensor copy = copy_to(tensor, inputs[i].expected);
    address = copy.const_data_ptr();
    frame.realigned.emplace_back(i, std::move(copy));
  }
  frame.addresses[buffer] = const_cast<void*>(address);
}

// By addresses: tensors over one NumPy array share memory without sharing a storage.
void Program::Impl::check_aliasing(Frame& frame) const {
  const auto address = [&](uint32_t i) { return static_cast<const char*>(frame.inputs[i]->const_data_ptr()); };
  const auto name = [&](uint32_t i) { return std::string(trace.graph->inputs()[i].name); };
  const auto count = static_cast<uint32_t>(inputs.size());
  bool moved = frame.checked.size() != count;
  frame.checked.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const char* const place = address(i);
    moved |= std::exchange(frame.checked[i], place) != place;
  }
  if (!moved) return;
  const auto places = std::exchange(frame.checked, {});  // Kept only if nothing is thrown.
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t first = inputs[i].alias_class;
    if (inputs[i].expected.numel == 0) continue;
    if (inputs[i].is_shared && places[i] - places[first] != inputs[i].alias_offset - inputs[first].alias_offset)
      fail_aliasing(name(i), name(first), true);
    order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](uint32_t i) { return places[i]; });
  for (size_t a = 0; a < order.size(); ++a)
    for (size_t b = a + 1; b < order.size() && places[order[b]] < places[order[a]] + inputs[order[a]].span; ++b) {
      const BoundInput &one = inputs[order[a]], &other = inputs[order[b]];
      if ((one.written || other.written) && one.alias_class != other.alias_class)
        fail_aliasing(name(order[a]), name(order[b]), false);
    }
  frame.checked = places;
}

void Program::Impl::run_steps(Frame& frame, std::span<const BoundStep> some, at::Tensor* owned,
                              bool is_told) const {
  if (tuning && tuning->begins()) [[unlikely]]
    return run_steps_tuned(frame, some, owned);
  const bool is_measured = clock && clock->counts_call();
  if (is_measured || is_told) [[unlikely]]
    return run_steps_watched(frame, some, owned, is_told, is_measured);
  for (const BoundStep& step : some) {
    allocate(step.begins, buffer_geometry, frame);
    if (step.is_region) {
      const BoundRegion& bound = regions[step.index];
      point(bound, frame);
      bound.region->run(frame.pointers.data(), &frame.status);
      if (bound.checks && frame.status != 0) [[unlikely]]
        fail(frame.status);
    } else {
      const BoundCall& call = *calls[step.index];
      call.function(call, frame);
      if (call.waits && reports_late) check_late();
    }
    finish_step(step, frame, owned);
  }
}

namespace {

/// Of the kernels and calls of one run.
class StepWatch final : public LaunchWatch {
 public:
  /// \param clock    null: nothing is measured.
  /// \param is_told  a profiler wants to know.
  StepWatch(const driver::Facts& facts, const loops::Plan& plan, StepClock* clock, bool is_told)
      : facts_(facts), plan_(plan), clock_(clock), is_told_(is_told) {}
  /// Kernels that follow are those of the plan from this step on.
  void set_first(uint32_t step) { first_ = step; }
  void begin(size_t kernel) override {
    const driver::StepFacts& step = facts_.steps.at(first_ + kernel);
    if (is_told_) tell(step, plan_.steps.at(first_ + kernel));
    start_ = Clock::now();
  }
  void end(size_t kernel) override {
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
    if (clock_) clock_->took(first_ + kernel, std::max<int64_t>(1, took));
    range_.reset();
  }

 private:
  using Clock = std::chrono::steady_clock;
  void tell(const driver::StepFacts& step, const loops::Step& planned) {
    ProfilerRange::Facts facts{{"source", step.source},
                               {"shapes", loops::shapes_of(plan_, planned)},
                               {"flops", loops::floating_operations(plan_, planned)}};
    const auto kernel = step.kind == "kernel"
                            ? std::ranges::find(facts_.kernels, step.name, &driver::KernelFacts::name)
                            : facts_.kernels.end();
    if (kernel != facts_.kernels.end()) {
      facts.emplace("bytes_read", kernel->bytes_read);
      facts.emplace("bytes_written", kernel->bytes_written);
      std::string fused;
      for (const std::string& node : kernel->fused) fused += (fused.empty() ? "" : ", ") + node;
      facts.emplace("fused", std::move(fused));
    }
    range_.emplace(concat("braze::", step.kind, " ", step.name), facts);
  }

  const driver::Facts& facts_;
  const loops::Plan& plan_;
  StepClock* const clock_;
  const bool is_told_;
  uint32_t first_ = 0;
  Clock::time_point start_;
  std::optional<ProfilerRange> range_;
};

}  // namespace

void Program::Impl::run_steps_watched(Frame& frame, std::span<const BoundStep> some, at::Tensor* owned,
                                      bool is_told, bool is_measured) const {
  const driver::Artifact& now = running();
  StepWatch watch(now.facts, now.plan, is_measured ? clock.get() : nullptr, is_told);
  for (const BoundStep& step : some) {
    watch.set_first(step.planned);
    allocate(step.begins, buffer_geometry, frame);
    if (step.is_region) {
      const BoundRegion& bound = regions[step.index];
      point(bound, frame);
      bound.region->run_watched(frame.pointers.data(), &frame.status, watch);
      if (bound.checks && frame.status != 0) [[unlikely]]
        fail(frame.status);
    } else {
      const BoundCall& call = *calls[step.index];
      watch.begin(0);
      call.function(call, frame);
      watch.end(0);
      if (call.waits && reports_late) check_late();
    }
    finish_step(step, frame, owned);
  }
}

namespace {

/// Of the kernels of one run.
class TuningWatch final : public LaunchWatch {
 public:
  TuningWatch(KernelTuning& tuning, Frame& frame) : tuning_(tuning), frame_(frame) {}
  ~TuningWatch() override { tuning_.end(); }
  TuningWatch(const TuningWatch&) = delete;
  TuningWatch& operator=(const TuningWatch&) = delete;
  /// Kernels that follow are those of `region`, which are the plan's from this step on.
  void enter(Region& region, uint32_t step) {
    region_ = &region;
    first_ = step;
  }
  void begin(size_t) override {}
  void end(size_t kernel) override {
    tuning_.measure(first_ + kernel, *region_, kernel, frame_.addresses, frame_.pointers.data());
  }

 private:
  KernelTuning& tuning_;
  Frame& frame_;
  Region* region_ = nullptr;
  uint32_t first_ = 0;
};

}  // namespace

void Program::Impl::run_steps_tuned(Frame& frame, std::span<const BoundStep> some, at::Tensor* owned) const {
  TuningWatch watch(*tuning, frame);
  for (const BoundStep& step : some) {
    allocate(step.begins, buffer_geometry, frame);
    if (step.is_region) {
      const BoundRegion& bound = regions[step.index];
      point(bound, frame);
      watch.enter(*bound.region, step.planned);
      bound.region->run_watched(frame.pointers.data(), &frame.status, watch);
      if (bound.checks && frame.status != 0) [[unlikely]]
        fail(frame.status);
    } else {
      const BoundCall& call = *calls[step.index];
      call.function(call, frame);
      if (call.waits && reports_late) check_late();
    }
    finish_step(step, frame, owned);
  }
}

void Program::Impl::finish_step(const BoundStep& step, Frame& frame, at::Tensor* owned) const {
  for (const uint32_t buffer : step.releases) frame.owned[buffer].reset();
  if (owned)
    for (const uint32_t argument : step.consumes) owned[argument].reset();
}

void Program::Impl::point(const BoundRegion& bound, Frame& frame) const {
  for (const Patch& patch : bound.patches)
    frame.pointers[patch.slot] = static_cast<char*>(frame.addresses[patch.buffer]) + patch.offset;
}

void Program::Impl::write_back(Frame& frame, const at::Tensor* const* arguments) const {
  std::vector<at::Tensor> copies(mutations.size());
  for (size_t i = 0; i < mutations.size(); ++i)
    if (mutations[i].through_copy) {
      const at::Tensor& source = mutations[i].source.resolve(frame);
      copies[i] = source.clone();
    }
  for (size_t i = 0; i < mutations.size(); ++i) {
    const BoundMutation& mutation = mutations[i];
    const at::Tensor& target = original(mutation.input, arguments);
    if (mutation.in_place) {
      for (const auto& [input, tensor] : frame.realigned)
        if (input == mutation.input) target.copy_(tensor);
    } else {
      target.copy_(copies[i].defined() ? copies[i] : mutation.source.resolve(frame));
    }
  }
}

/// As often as eager's operators would have, so that autograd finds what it saved of the old contents out of date.
/// Inputs may share a counter, which counts the writes to all of them: it is moved once.
void Program::Impl::count_writes(const at::Tensor* const* arguments) const {
  c10::SmallVector<std::pair<const c10::VariableVersion*, uint32_t>, 4> after;
  for (uint32_t k = 0; k < trace.writes.size(); ++k) {
    const at::Tensor* target = trace.writes[k] == 0 ? nullptr : &original(k, arguments);
    if (!target || target->is_inference()) continue;
    const c10::VariableVersion& version = target->unsafeGetTensorImpl()->version_counter();
    after.emplace_back(&version, version.current_version() + trace.writes[k]);
  }
  for (const auto& [version, number] : after) const_cast<c10::VariableVersion*>(version)->set_version(number);
}

at::Tensor Program::Impl::graph_output(const Frame& frame, uint32_t index) const {
  const BoundOutput& output = outputs[index];
  const at::Tensor& tensor = frame.owned[output.buffer];
  if (output.whole) return tensor;
  return alias(tensor, output.view.sizes, output.view.strides, tensor.storage_offset() + output.view.offset);
}

namespace {

at::Tensor placed(const at::Tensor& base, const capture::OutputRecipe& recipe) {
  if (recipe.whole) return alias(base, base.sizes(), base.strides(), base.storage_offset());
  const c10::ScalarType dtype = recipe.dtype == c10::ScalarType::Undefined ? base.scalar_type() : recipe.dtype;
  const int64_t offset = place_of(base) + recipe.offset;
  return alias(base, dtype, recipe.sizes, recipe.strides, offset / static_cast<int64_t>(c10::elementSize(dtype)));
}

/// The same memory as an inference tensor, if `base` is none, or else as an ordinary one.
at::Tensor in_other_mode(const at::Tensor& base) {
  const c10::BackendComponent backend =
      base.device().is_cpu() ? c10::BackendComponent::CPUBit : c10::BackendComponent::CUDABit;
  c10::DispatchKeySet keys(base.device().is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA);
  if (base.is_inference()) keys = keys | c10::getAutogradRelatedKeySetFromBackend(backend);
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                             keys, base.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(base.sizes(), base.strides(), base.storage_offset());
  return made;
}

/// `tensor` as autograd's view of `base`.
at::Tensor as_view(const at::Tensor& base, const at::Tensor& tensor, torch::autograd::CreationMeta creation) {
  if (base.is_inference()) return tensor;
  return torch::autograd::make_variable_differentiable_view(
      tensor, torch::autograd::ViewInfo(base, nullptr, nullptr), std::nullopt, /*shared_view_info=*/true, creation);
}

}  // namespace

at::Tensor Program::Impl::make_result(const capture::OutputRecipe& recipe, const Frame& frame,
                                      const at::Tensor* const* arguments, uint64_t& given) const {
  using Kind = capture::OutputRecipe::Kind;
  if (recipe.kind == Kind::input_object) return original(recipe.index, arguments);
  at::Tensor result;
  if (recipe.kind == Kind::input_view) {
    result = placed(original(recipe.index, arguments), recipe);
  } else {
    at::Tensor base = graph_output(frame, recipe.index);
    if (recipe.of_other_mode) base = in_other_mode(base);
    if (recipe.version > 0 && recipe.counter == capture::OutputRecipe::of_memory && !base.is_inference())
      const_cast<c10::VariableVersion&>(base.unsafeGetTensorImpl()->version_counter()).set_version(recipe.version);
    const uint64_t bit = recipe.index < 64 ? uint64_t{1} << recipe.index : 0;
    const bool first = recipe.whole && !recipe.is_conj && !recipe.is_neg && bit && !(given & bit);
    if (first) given |= bit;
    result = first ? std::move(base) : placed(base, recipe);
  }
  if (recipe.is_conj) result._set_conj(true);
  if (recipe.is_neg) result._set_neg(true);
  return result;
}

void Program::Impl::make_results(const Frame& frame, const at::Tensor* const* arguments,
                                 at::Tensor* results) const {
  using Base = capture::OutputRecipe::Base;
  uint64_t given = 0;  // Which of the first 64 graph outputs have been handed out as they are.
  const size_t count = trace.outputs.size();
  c10::SmallVector<at::Tensor, 2> hidden;
  const auto make = [&](const capture::OutputRecipe& recipe) {
    at::Tensor made = make_result(recipe, frame, arguments, given);
    if (recipe.counter == capture::OutputRecipe::of_memory || made.is_inference()) return made;
    const auto number = static_cast<size_t>(recipe.counter);
    made.unsafeGetTensorImpl()->set_version_counter(
        recipe.counter == capture::OutputRecipe::of_its_own ? c10::VariableVersion(recipe.version)
        : number < count ? results[number].unsafeGetTensorImpl()->version_counter()
                         : hidden[number - count].unsafeGetTensorImpl()->version_counter());
    return made;
  };
  for (size_t r = 0; r < count; ++r) results[r] = make(trace.outputs[r]);
  for (const capture::OutputRecipe& recipe : trace.hidden) hidden.push_back(make(recipe));
  for (size_t r = 0; r < count; ++r) {
    const capture::OutputRecipe& recipe = trace.outputs[r];
    if (recipe.base_kind == Base::none) continue;
    at::Tensor base = recipe.base_kind == Base::input ? original(recipe.base, arguments)
                      : recipe.base < count           ? results[recipe.base]
                                                      : hidden[recipe.base - count];
    if (recipe.base_kind == Base::input && base.is_view()) base = base._base();
    results[r] = as_view(base, results[r], recipe.creation);
  }
}

}  // namespace braze::runtime
