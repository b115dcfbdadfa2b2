// runtime/run.cpp: one call of a program.
//
// Budget: a program of one small kernel costs one allocation (its result) and about 300 ns in all; what does not
// change between calls was worked out by bind.cpp. Nothing here needs Python.
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

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

// What the tracer recorded was already below autograd and autocast.
const c10::DispatchKeySet excluded_keys =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

/// In eager's words.
[[noreturn, gnu::noinline, gnu::cold]] void fail(int64_t status) {
  if (status == loops::status_of(ir::Op::divisor))
    throw UserError("ZeroDivisionError: an integer is divided by zero");
  if (status == loops::status_of(ir::Op::probability))
    throw UserError("all elements of input should be between 0 and 1");
  throw UserError("index out of range in self", UserError::Kind::index);
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
  frame->arena = Geometry::of(ir::DType::u8, c10::Device(c10::kCPU), {plan.arena_bytes}, {1}).allocate();
  char* const base = static_cast<char*>(frame->arena.data_ptr());
  frame->addresses.resize(plan.buffers.size());
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].kind == loops::BufferKind::temporary) frame->addresses[b] = base + plan.buffers[b].offset;
  frame->pointers.resize(pointer_count);
  for (const auto& [slot, offset] : arena_pointers) frame->pointers[slot] = base + offset;
  frame->owned.resize(plan.buffers.size());
  frame->inputs.resize(inputs.size());
  for (const PrebuiltView& view : prebuilt) {
    char* address = view.in_arena ? static_cast<char*>(frame->addresses[view.view.buffer]) +
                                        view.view.offset * ir::byte_size(view.view.dtype)
                                  : nullptr;
    c10::Storage storage(c10::Storage::use_byte_size_t(), view.geometry.bytes(),
                         at::DataPtr(address, view.geometry.device), /*allocator=*/nullptr, /*resizable=*/false);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage),
        c10::DispatchKeySet(view.geometry.device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA),
        c10::scalarTypeToTypeMeta(view.geometry.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.geometry.sizes, view.geometry.strides);
    frame->views.push_back(std::move(tensor));
  }
  return frame;
}

const at::Tensor& Program::Impl::original(uint32_t input, const at::Tensor* const* arguments) const {
  return inputs[input].bound ? trace.bound[input] : *arguments[inputs[input].argument];
}

void Program::Impl::run(const at::Tensor* const* arguments, at::Tensor* results) const {
  c10::impl::ExcludeDispatchKeyGuard below_autograd(excluded_keys);
  std::unique_ptr<Frame> taken = frames.take();
  FrameLease lease(frames, taken ? std::move(taken) : make_frame());
  Frame& frame = *lease;
  load_inputs(frame, arguments);
  for (uint32_t b : output_buffers) {
    const Geometry& geometry = buffer_geometry[b];
    const bool pooled = output_pool && geometry.device.is_cpu() && OutputPool::wants(geometry.bytes());
    frame.owned[b] = pooled ? output_pool->allocate(geometry) : geometry.allocate();
    frame.addresses[b] = frame.owned[b].unsafeGetTensorImpl()->mutable_data();
  }
  for (uint32_t b : part_buffers)
    frame.addresses[b] = static_cast<char*>(frame.addresses[plan.buffers[b].part_of]) + plan.buffers[b].offset;
  run_steps(frame);
  if (any_written) write_back(frame, arguments);
  make_results(frame, arguments, results);
}

void Program::Impl::load_inputs(Frame& frame, const at::Tensor* const* arguments) const {
  for (size_t k = 0; k < argument_inputs.size(); ++k) frame.inputs[argument_inputs[k]] = arguments[k];
  for (uint32_t i : bound_inputs) {
    const at::Tensor& tensor = trace.bound[i];
    if (!inputs[i].expected.matches(tensor)) [[unlikely]]
      fail_geometry(concat("the module's `", trace.graph->inputs()[i].name, "`"), inputs[i].expected, tensor,
                    "it was changed after tracing: trace again");
    frame.inputs[i] = &tensor;
  }
  if (any_written) check_aliasing(frame);
  for (const auto& [buffer, i] : input_buffers) {
    const at::Tensor& tensor = *frame.inputs[i];
    const void* address = inputs[i].written ? tensor.mutable_data_ptr() : tensor.const_data_ptr();
    if (reinterpret_cast<uintptr_t>(address) % inputs[i].alignment != 0) [[unlikely]] {
      at::Tensor copy = copy_to(tensor, inputs[i].expected);
      address = copy.const_data_ptr();
      frame.realigned.emplace_back(i, std::move(copy));
    }
    frame.addresses[buffer] = const_cast<void*>(address);
  }
}

void Program::Impl::check_aliasing(const Frame& frame) const {
  auto storage = [&](uint32_t i) {
    return frame.inputs[i]->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  };
  auto address = [&](uint32_t i) { return static_cast<const char*>(frame.inputs[i]->const_data_ptr()); };
  for (uint32_t w = 0; w < inputs.size(); ++w) {
    if (!inputs[w].written || inputs[w].expected.numel == 0) continue;
    for (uint32_t other = 0; other < inputs.size(); ++other) {
      if (other == w || inputs[other].expected.numel == 0) continue;
      const bool traced = inputs[w].alias_class == inputs[other].alias_class;
      bool same = traced == (storage(w) == storage(other));
      if (same && traced) same = address(w) - address(other) == inputs[w].alias_offset - inputs[other].alias_offset;
      if (!same) [[unlikely]]
        fail_aliasing(std::string(trace.graph->inputs()[w].name), std::string(trace.graph->inputs()[other].name),
                      traced);
    }
  }
}

void Program::Impl::run_steps(Frame& frame) const {
  for (const BoundStep& step : steps) {
    if (step.is_region)
      launch(regions[step.index], frame);
    else
      calls[step.index]->function(*calls[step.index], frame);
    for (uint32_t buffer : step.releases) frame.owned[buffer].reset();
  }
}

void Program::Impl::launch(const BoundRegion& bound, Frame& frame) const {
  for (const Patch& patch : bound.patches) frame.pointers[patch.slot] = frame.addresses[patch.buffer];
  bound.region.run(frame.pointers.data(), &frame.status);
  if (bound.checks && frame.status != 0) [[unlikely]]
    fail(frame.status);
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
    // What autograd saved of the old contents must be found out of date, as after an in-place op.
    if (!target.is_inference()) target.unsafeGetTensorImpl()->bump_version();
  }
}

at::Tensor Program::Impl::graph_output(const Frame& frame, uint32_t index) const {
  const BoundOutput& output = outputs[index];
  const at::Tensor& tensor = frame.owned[output.buffer];
  if (output.whole) return tensor;
  return alias(tensor, output.view.sizes, output.view.strides, tensor.storage_offset() + output.view.offset);
}

void Program::Impl::make_results(const Frame& frame, const at::Tensor* const* arguments,
                                 at::Tensor* results) const {
  using Kind = capture::OutputRecipe::Kind;
  uint64_t given = 0;  // Which of the first 64 graph outputs have been handed out as they are.
  for (size_t r = 0; r < trace.outputs.size(); ++r) {
    const capture::OutputRecipe& recipe = trace.outputs[r];
    if (recipe.kind == Kind::input_object) {
      results[r] = original(recipe.index, arguments);
      continue;
    }
    const bool from_input = recipe.kind == Kind::input_view;
    at::Tensor base = from_input ? original(recipe.index, arguments) : graph_output(frame, recipe.index);
    const uint64_t bit = recipe.index < 64 ? uint64_t{1} << recipe.index : 0;
    const bool first = !from_input && bit && !(given & bit);
    if (recipe.whole && first) {
      given |= bit;
      results[r] = std::move(base);
    } else if (recipe.whole) {
      results[r] = alias(base, base.sizes(), base.strides(), base.storage_offset());
    } else {
      results[r] = alias(base, recipe.sizes, recipe.strides, base.storage_offset() + recipe.offset);
    }
    if (recipe.is_conj) results[r]._set_conj(true);
    if (recipe.is_neg) results[r]._set_neg(true);
  }
}

}  // namespace braze::runtime
