// runtime/bind.cpp: from the plan to steps that need no looking up: addresses, operands, results, lifetimes.
#include <bit>
#include <limits>
#include <map>
#include <unordered_map>

#include "capture/input_place.h"
#include "loops/layout.h"
#include "loops/memory.h"
#include "runtime/inputs_apart.h"
#include "runtime/program_impl.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

uint64_t scalar_bits(ir::DType dtype, const ir::Number& number) {
  switch (dtype) {
    case ir::DType::f64: return std::bit_cast<uint64_t>(number.as_double());
    case ir::DType::f32: return std::bit_cast<uint32_t>(static_cast<float>(number.as_double()));
    case ir::DType::b8: return number.floating ? number.f != 0 : number.i != 0;
    default: return static_cast<uint64_t>(number.as_int());
  }
}

/// Inputs whose storages overlap, by address.
class Overlaps {
 public:
  struct First {
    uint32_t input;
    const char* address;  ///< Of its first element.
  };

  /// The first input over the same memory as number `input`: itself, if there was none.
  First add(uint32_t input, const at::Tensor& example) {
    const auto* begin = static_cast<const char*>(example.storage().data());
    const char* end = begin + example.storage().nbytes();
    auto at = spans_.upper_bound(begin);
    if (at != spans_.begin()) --at;
    while (at != spans_.end() && at->second.end <= begin) ++at;
    Span span{end, {input, static_cast<const char*>(example.const_data_ptr())}};
    if (at != spans_.end() && at->first < end) {
      begin = std::min(begin, at->first);
      span = {std::max(end, at->second.end), at->second.first};
      spans_.erase(at);
    }
    spans_.emplace(begin, span);
    return span.first;
  }

 private:
  struct Span {
    const char* end;
    First first;
  };
  std::map<const char*, Span> spans_;  ///< By where they begin; none overlap.
};

Geometry stored_geometry(const loops::PlanBuffer& buffer) {
  return Geometry::of(buffer.dtype, device(buffer.device), buffer.sizes, buffer.strides);
}

/// Large results are allocated where they are first written, when a backward has let go of what it has read before.
/// What lies in parts is written by several steps, and there from the start.
void bind_late_outputs(Program::Impl& program, const std::vector<uint32_t>& bound_steps) {
  constexpr int64_t large = 1 << 17;
  const loops::Plan& plan = program.plan;
  std::vector<bool> is_late(plan.buffers.size());
  for (const auto& [b, device, zeroed] : program.output_buffers)
    is_late[b] = program.buffer_geometry[b].bytes() >= large;
  for (const uint32_t part : program.part_buffers) is_late[plan.buffers[part].part_of] = false;
  std::vector<std::optional<uint32_t>> first(plan.buffers.size());
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    const auto use = [&](uint32_t buffer) {
      if (!first[buffer]) first[buffer] = bound_steps[s];
    };
    const loops::Step& step = plan.steps[s];
    if (step.kind == loops::Step::Kind::kernel) {
      std::ranges::for_each(step.kernel.buffers, use);
    } else {
      for (const loops::View& view : step.call.operands) use(view.buffer);
      for (const int32_t buffer : step.call.results)
        if (buffer >= 0) use(static_cast<uint32_t>(buffer));
    }
  }
  std::vector<BoundOutputBuffer> early;
  for (const BoundOutputBuffer& output : program.output_buffers) {
    const std::optional<uint32_t> step = first[output.buffer];
    if (is_late[output.buffer] && step.value_or(0) > 0)
      program.steps[*step].begins.push_back(output);
    else
      early.push_back(output);
  }
  program.output_buffers = std::move(early);
}

}  // namespace

void Program::Impl::bind() {
  bind_buffers();
  std::vector<uint32_t> bound_steps;  // of each step of the plan
  for (const loops::Step& step : plan.steps) {
    const size_t before = steps.size();
    step.kind == loops::Step::Kind::kernel ? bind_kernel(step.kernel, step.join) : bind_call(step.call);
    if (steps.size() > before) steps.back().planned = static_cast<uint32_t>(bound_steps.size());
    bound_steps.push_back(static_cast<uint32_t>(steps.size()) - 1);
  }
  bind_results();
  bind_late_outputs(*this, bound_steps);
  bind_releases(bound_steps);
  has_calls = !calls.empty();
  for (const BoundDevice& bound : devices) reports_late |= bound.checks;
  if (std::ranges::all_of(devices, [](const BoundDevice& bound) { return bound.place.is_cpu(); }))
    clock = std::make_unique<StepClock>(plan.steps.size());
}

void Program::Impl::bind_inputs(const std::vector<at::Tensor>& example_arguments) {
  const auto& graph_inputs = trace.graph->inputs();
  Overlaps overlaps;
  for (uint32_t i = 0; i < graph_inputs.size(); ++i) {
    BoundInput input;
    input.expected = Geometry::of(*graph_inputs[i].value->type);
    input.bound = graph_inputs[i].kind != ir::InputKind::argument;
    input.alias_class = i;
    if (input.bound) {
      bound_inputs.push_back(i);
    } else {
      input.argument = argument_inputs.size();
      argument_inputs.push_back(i);
    }
    const at::Tensor* example = nullptr;
    if (input.bound)
      example = &trace.bound.at(i);
    else if (input.argument < example_arguments.size())
      example = &example_arguments[input.argument];
    // The graph has no name for its dtype, but an ATen call may read it.
    if (example && input.expected.dtype == c10::ScalarType::Undefined)
      input.expected.dtype = example->scalar_type();
    if (example && example->has_storage() && example->numel() > 0) {
      const Overlaps::First first = overlaps.add(i, *example);
      input.alias_class = first.input;
      input.alias_offset = static_cast<const char*>(example->const_data_ptr()) - first.address;
    }
    int64_t modulus = i < trace.place_modulus.size() ? trace.place_modulus[i] : 1;
    if (modulus == capture::whole_place) modulus = std::numeric_limits<int64_t>::max();
    if (example && modulus > 1)
      places.push_back(
          {i, modulus, example->storage_offset() * static_cast<int64_t>(example->itemsize()) % modulus});
    inputs.push_back(std::move(input));
  }
  for (const ir::Mutation& mutation : trace.graph->mutations()) inputs.at(mutation.input).written = true;
  std::unordered_map<uint32_t, std::pair<size_t, bool>> classes;  // members, whether one is written
  for (BoundInput& input : inputs) {
    input.span = input.expected.bytes();
    auto& [members, written] = classes[input.alias_class];
    ++members;
    written |= input.written;
  }
  for (BoundInput& input : inputs) {
    const auto& [members, written] = classes[input.alias_class];
    input.is_shared = members > 1 && written;
  }
  writable = inputs_apart(trace, example_arguments);
}

void Program::Impl::bind_buffers() {
  buffer_geometry.resize(plan.buffers.size());
  const bool spares = options.spares_memory && !options.cuda_graphs;  // Recordings keep what they were made with.
  stands_alone = spares ? loops::stand_alone(plan) : std::vector<bool>(plan.buffers.size());
  in_arena.resize(plan.buffers.size());
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    const loops::PlanBuffer& buffer = plan.buffers[b];
    switch (buffer.kind) {
      case loops::BufferKind::mutated: inputs.at(buffer.index).written = true; [[fallthrough]];
      case loops::BufferKind::input:
        input_buffers.emplace_back(b, buffer.index);
        buffer_geometry[b] = inputs.at(buffer.index).expected;
        break;
      case loops::BufferKind::output:
      case loops::BufferKind::call: buffer_geometry[b] = stored_geometry(buffer); break;
      case loops::BufferKind::part: part_buffers.push_back(b); break;
      case loops::BufferKind::temporary: {
        if (stands_alone[b]) {
          buffer_geometry[b] = Geometry::of(ir::DType::u8, device(buffer.device), {buffer.bytes}, {1});
          break;
        }
        in_arena[b] = true;
        BoundDevice& bound = on(buffer.device);
        const bool is_first = bound.temporaries.empty();
        bound.begin = is_first ? buffer.offset : std::min(bound.begin, buffer.offset);
        bound.end = std::max(bound.end, buffer.offset + buffer.bytes);
        bound.temporaries.push_back(b);
        break;
      }
    }
  }
  for (const BoundInput& input : inputs) any_written |= input.written;
  any_written |= std::ranges::any_of(trace.writes, [](uint32_t count) { return count > 0; });
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].kind != loops::BufferKind::output && !stands_alone[b]) continue;
    Device& device = *on(plan.buffers[b].device).device;
    if (!plan.buffers[b].zeroed) device.expect_result(buffer_geometry[b]);
    output_buffers.push_back({b, &device, plan.buffers[b].zeroed});
  }
}

BoundDevice& Program::Impl::on(ir::Device place) {
  const c10::Device wanted = device(place);
  for (BoundDevice& bound : devices)
    if (bound.place == wanted) return bound;
  return devices.emplace_back(
      BoundDevice{.place = wanted, .device = make_device(wanted), .temporaries = {}, .pointers = {}, .views = {}});
}

void Program::Impl::bind_kernel(const loops::KernelStep& step, loops::Join join) {
  const loops::Kernel& kernel = *plan.kernels.at(step.kernel);
  const ir::Device place = plan.buffers.at(step.buffers.at(0)).device;
  for (const uint32_t buffer : step.buffers)
    BRAZE_CHECK(plan.buffers.at(buffer).device == place, "kernel ", kernel.name, " has values on two devices");
  BoundDevice& device = on(place);
  if (join == loops::Join::alone) {
    steps.push_back({.is_region = true,
                     .index = static_cast<uint32_t>(regions.size()),
                     .begins = {},
                     .releases = {},
                     .consumes = {}});
    regions.emplace_back().region = device.device->make_region();
  }
  BoundRegion& bound = regions.back();
  if (join == loops::Join::after) bound.region->add_barrier();
  BRAZE_CHECK(step.scalars.size() == kernel.scalars.size(), "kernel ", kernel.name, ": scalars do not fit");
  std::vector<uint64_t> scalars;
  for (size_t i = 0; i < step.scalars.size(); ++i)
    scalars.push_back(scalar_bits(kernel.scalars[i].dtype, step.scalars[i]));
  bound.region->add(*artifact.code.at(step.kernel), pointer_count, scalars,
                    {step.symbols, step.bytes_read + step.bytes_written});
  for (size_t i = 0; i < step.buffers.size(); ++i) {
    const uint32_t buffer = step.buffers[i], slot = pointer_count + i;
    const loops::PlanBuffer& memory = plan.buffers.at(buffer);
    const int64_t origin = step.origins[i] * ir::byte_size(kernel.buffers.at(i).dtype);
    if (in_arena[buffer]) {
      device.pointers.emplace_back(slot, memory.offset + origin);
      continue;
    }
    bound.patches.push_back({slot, buffer, origin});
    if (memory.kind == loops::BufferKind::input || memory.kind == loops::BufferKind::mutated) {
      BoundInput& input = inputs[memory.index];
      input.alignment = std::max(input.alignment, kernel.buffers.at(i).alignment);
    }
  }
  pointer_count += step.buffers.size();
  (device.device->reports_late() ? device.checks : bound.checks) |= loops::has_checks(kernel);
  work_bytes += step.bytes_read + step.bytes_written;
}

bool Program::Impl::is_whole(const loops::View& view) const {
  const Geometry& geometry = buffer_geometry.at(view.buffer);
  return view.offset == 0 && ir_dtype(geometry.dtype) == view.dtype &&
         geometry.same_layout(view.sizes, view.strides);
}

OperandRef Program::Impl::operand(const loops::View& view) {
  const loops::PlanBuffer& buffer = plan.buffers.at(view.buffer);
  OperandRef ref;
  ref.buffer = view.buffer;
  if (buffer.kind != loops::BufferKind::temporary && buffer.kind != loops::BufferKind::part && is_whole(view)) {
    const bool owned = buffer.kind == loops::BufferKind::output || buffer.kind == loops::BufferKind::call;
    ref.kind = owned ? OperandRef::Kind::owned : OperandRef::Kind::input;
    ref.index = owned ? view.buffer : buffer.index;
    return ref;
  }
  BRAZE_CHECK(view.dtype != ir::DType::other, "a window onto elements that only ATen understands");
  PrebuiltView built;
  built.view = view;
  built.in_arena = in_arena[view.buffer];
  built.geometry = Geometry::of(view.dtype, device(buffer.device), view.sizes, view.strides);
  ref.kind = OperandRef::Kind::view;
  ref.index = prebuilt.size();
  ref.byte_offset = view.offset * ir::byte_size(view.dtype);
  ref.in_arena = in_arena[view.buffer];
  if (in_arena[view.buffer]) on(buffer.device).views.push_back(ref.index);
  prebuilt.push_back(std::move(built));
  return ref;
}

std::optional<uint32_t> Program::Impl::weight_of(const loops::View& view) const {
  const loops::PlanBuffer& buffer = plan.buffers.at(view.buffer);
  if (!options.prepack_weights || buffer.kind != loops::BufferKind::input) return std::nullopt;
  const uint32_t storage = inputs[buffer.index].alias_class;
  for (const BoundInput& input : inputs)
    if (input.written && input.alias_class == storage) return std::nullopt;
  return buffer.index;
}

void Program::Impl::bind_call(const loops::CallStep& step) {
  auto call = std::make_unique<BoundCall>();
  for (const loops::View& view : step.operands) call->operands.push_back(operand(view));
  for (size_t i = 0; i < step.results.size(); ++i) {
    ResultRef result;
    if (step.results[i] >= 0) {
      result.buffer = step.results[i];
      const loops::PlanBuffer& buffer = plan.buffers.at(result.buffer);
      result.planned = stored_geometry(buffer);
      result.kind = ResultRef::Kind::keep;
      if (buffer.kind != loops::BufferKind::call) {
        result.kind = ResultRef::Kind::into;
        result.target = operand(loops::whole(plan, result.buffer));
      }
    }
    call->results.push_back(std::move(result));
  }
  const auto is_gpu = [&](uint32_t buffer) { return plan.buffers[buffer].device.kind == ir::DeviceKind::cuda; };
  const bool reads_gpu =
      std::ranges::any_of(step.operands, [&](const loops::View& view) { return is_gpu(view.buffer); });
  call->waits = reads_gpu &&
                std::ranges::any_of(step.results, [&](int32_t result) { return result >= 0 && !is_gpu(result); });
  call->choose(step, trace.objects);
  if (step.writes_into) {
    call->weight = weight_of(step.operands.back());
    call->matmul = Matmul::plan(step, call->results[0].planned,
                                {.measure = options.max_autotune,
                                 .use_disk_cache = options.use_disk_cache,
                                 .weight = call->weight ? &inputs[*call->weight].expected : nullptr});
    if (options.max_autotune)
      call->product = GpuProduct::plan(step, call->results[0].planned, options.use_disk_cache);
  }
  steps.push_back({.is_region = false,
                   .index = static_cast<uint32_t>(calls.size()),
                   .begins = {},
                   .releases = {},
                   .consumes = {}});
  calls.push_back(std::move(call));
}

void Program::Impl::bind_results() {
  for (const loops::View& view : plan.outputs) {
    const loops::BufferKind kind = plan.buffers.at(view.buffer).kind;
    BRAZE_CHECK(kind == loops::BufferKind::output || kind == loops::BufferKind::call,
                "a result of the graph lies in memory that is not the caller's");
    outputs.push_back({view.buffer, is_whole(view), view});
    any_floating_output |= ir::is_floating(view.dtype);
  }
  for (const auto& [input, view] : plan.mutations) {
    const loops::PlanBuffer& buffer = plan.buffers.at(view.buffer);
    BoundMutation mutation;
    mutation.input = input;
    mutation.in_place = buffer.kind == loops::BufferKind::mutated && buffer.index == mutation.input;
    mutation.source = operand(view);
    const bool from_input = buffer.kind == loops::BufferKind::input || buffer.kind == loops::BufferKind::mutated;
    mutation.through_copy = !mutation.in_place && from_input && inputs[buffer.index].written;
    mutations.push_back(std::move(mutation));
  }
}

void Program::Impl::bind_releases(const std::vector<uint32_t>& bound_steps) {
  constexpr uint32_t kept = ~0u;
  std::unordered_map<uint32_t, uint32_t> last_use;  // buffer that is let go of -> step
  auto use = [&](uint32_t buffer, uint32_t step) {
    const loops::BufferKind kind = plan.buffers[buffer].kind;
    const bool is_let_go =
        kind == loops::BufferKind::call || kind == loops::BufferKind::input || stands_alone[buffer];
    if (is_let_go && last_use[buffer] != kept) last_use[buffer] = step;
  };
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    const loops::Step& step = plan.steps[s];
    if (step.kind == loops::Step::Kind::kernel) {
      for (uint32_t buffer : step.kernel.buffers) use(buffer, bound_steps[s]);
    } else {
      for (const loops::View& view : step.call.operands) use(view.buffer, bound_steps[s]);
      for (int32_t buffer : step.call.results)
        if (buffer >= 0) use(buffer, bound_steps[s]);
    }
  }
  for (const loops::View& view : plan.outputs) use(view.buffer, kept);
  for (const loops::PlanMutation& mutation : plan.mutations) use(mutation.view.buffer, kept);
  for (const auto& [buffer, step] : last_use)
    if (step != kept && plan.buffers[buffer].kind != loops::BufferKind::input)
      steps[step].releases.push_back(buffer);
  bind_consumed(last_use, kept);
  // A result that only its own call mentions is not wanted; some operators give no tensor for it.
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (steps[s].is_region) continue;
    for (ResultRef& result : calls[steps[s].index]->results)
      if (result.kind == ResultRef::Kind::keep && last_use[result.buffer] == s)
        result.kind = ResultRef::Kind::unused;
  }
}

/// Arguments whose only buffer is read for the last time in a step.
void Program::Impl::bind_consumed(const std::unordered_map<uint32_t, uint32_t>& last_use, uint32_t kept) {
  std::unordered_map<uint32_t, uint32_t> last_of_input;  // graph input -> step
  for (const auto& [buffer, input] : input_buffers) {
    const auto used = last_use.find(buffer);
    if (used == last_use.end()) continue;
    const auto [place, is_new] = last_of_input.try_emplace(input, used->second);
    if (!is_new) place->second = std::max(place->second, used->second);
  }
  for (const auto& [input, step] : last_of_input)
    if (step != kept && !inputs[input].bound) steps[step].consumes.push_back(inputs[input].argument);
}

}  // namespace braze::runtime
