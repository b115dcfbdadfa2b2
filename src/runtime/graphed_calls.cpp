#include "runtime/graphed_calls.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <map>
#include <utility>

#include "device/cuda/driver.h"
#include "runtime/device/cuda/device.h"
#include "runtime/profiler_range.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

constexpr size_t kMostAtOnce = 3;  ///< Recordings: of two, one is free where results live until the next are there.
constexpr int64_t kMostEver = 16;  ///< Of a program whose tensors move again and again.
constexpr size_t kMostRefused = 8;  ///< Steps that are tried in vain; each costs a recording.

/// One for the process, as the modules that it reaches are.
std::unique_ptr<CudaGraphRecorder>& recorder_slot() {
  static auto* slot = new std::unique_ptr<CudaGraphRecorder>;  // Never destroyed: graphs may be, later.
  return *slot;
}

const void* place_of(const at::Tensor& tensor) {
  return tensor.const_data_ptr();
}

void copy_elements(const at::Tensor& to, const at::Tensor& from, int64_t bytes, void* stream) {
  if (bytes == 0) return;
  device::cuda::check(
      device::cuda::driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<device::cuda::Address>(to.mutable_data_ptr()),
                                                  reinterpret_cast<device::cuda::Address>(from.const_data_ptr()),
                                                  bytes, static_cast<device::cuda::Stream>(stream)),
      "copying an argument of a CUDA graph");
}

/// Memory for temporaries of recordings, by the stream that they belong to. Their graphs run one after the other,
/// and none finds there what another left.
at::Tensor shared_arena(const BoundDevice& on, void* stream) {
  struct Shared {
    std::mutex mutex;
    std::map<std::pair<c10::DeviceIndex, void*>, at::Tensor> arenas;
  };
  static auto* const shared = new Shared;  // One a process, as streams are; not destroyed, the driver goes first.
  const std::lock_guard lock(shared->mutex);
  at::Tensor& arena = shared->arenas[{on.place.index(), stream}];
  const int64_t wanted = on.end - on.begin;
  // Recordings keep the one that they were made with: where it must grow, it does so by half at least.
  if (!arena.defined() || arena.numel() < wanted) {
    const int64_t grown = arena.defined() ? arena.numel() + arena.numel() / 2 : 0;
    arena = on.device->allocate_temporaries(std::max(wanted, grown));
  }
  return arena;
}

}  // namespace

CudaGraphRecorder* cuda_graph_recorder() noexcept {
  return recorder_slot().get();
}

void set_cuda_graph_recorder(std::unique_ptr<CudaGraphRecorder> recorder) {
  recorder_slot() = std::move(recorder);
}

struct GraphedCalls::Recording {
  /// What a part leaves for others, by GraphPart::shared.
  struct Part {
    std::unique_ptr<CudaGraph> graph;  ///< Null: there is none yet, or it is a direct part.
    std::vector<at::Tensor> shared;
  };
  void* stream = nullptr;
  uint64_t epoch = cuda_graph_recorder()->epoch();
  std::unique_ptr<Frame> frame;        ///< Its outputs are the memory of results.
  std::vector<uint32_t> buffers;       ///< Plan buffers of results.
  std::vector<at::Tensor> copies;      ///< By argument; undefined: it is read where it lies,
  std::vector<const void*> arguments;  ///< which is here.
  std::vector<const void*> bound;      ///< By Impl::bound_inputs.
  std::vector<Part> parts;             ///< As GraphedCalls::parts_. Goes first.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> given;  ///< Of the results of the last replay.

  bool is_free() const {
    return std::ranges::all_of(given, [](const auto& storage) { return storage.expired(); });
  }
  /// Another tensor over the memory of a result, which keeps the recording alive.
  static at::Tensor give(const std::shared_ptr<Recording>& self, const at::Tensor& held);
};

at::Tensor GraphedCalls::Recording::give(const std::shared_ptr<Recording>& self, const at::Tensor& held) {
  const c10::Storage& memory = held.storage();
  at::DataPtr data(
      memory.mutable_data(), new std::shared_ptr<Recording>(self),
      [](void* keeper) { delete static_cast<std::shared_ptr<Recording>*>(keeper); }, memory.device());
  c10::Storage storage(c10::Storage::use_byte_size_t(), memory.nbytes(), std::move(data), memory.allocator(),
                       /*resizable=*/true);
  self->given.push_back(storage.getWeakStorageImpl());
  const c10::DispatchKey key = memory.device().is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA;
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), held.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(held.sizes(), held.strides(), held.storage_offset());
  return tensor;
}

GraphedCalls::GraphedCalls(const Program::Impl& program)
    : program_(program), places_(program.argument_inputs.size()), moves_(program.argument_inputs.size()) {
  split();
}

GraphedCalls::~GraphedCalls() = default;

CudaGraphFacts GraphedCalls::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

std::string GraphedCalls::obstacle() const {
  if (!cuda_graph_recorder()) return "CUDA graphs are recorded through PyTorch's Python modules, and there is none";
  if (!program_.places.empty()) return "the place of an argument in its storage counts";
  return parts_.obstacle;
}

void GraphedCalls::split() {
  recordings_.clear();
  parts_ = split_into_graphs(program_, refused_);
  if (std::string why = obstacle(); !why.empty()) return give_up(std::move(why));
  facts_.graphs = static_cast<int64_t>(parts_.graphs());
  facts_.apart = parts_.apart;
}

void GraphedCalls::give_up(std::string why) {
  facts_.skipped = std::move(why);
  facts_.graphs = 0;
  facts_.apart.clear();
  recordings_.clear();
  if (CudaGraphRecorder* recorder = cuda_graph_recorder())
    recorder->tell(concat("no CUDA graph: ", facts_.skipped));
}

bool GraphedCalls::is_at_home(const Recording& recording, const at::Tensor* const* arguments) const {
  if (recording.epoch != cuda_graph_recorder()->epoch()) return false;
  for (size_t k = 0; k < places_.size(); ++k)
    if (is_fixed(program_.inputs[program_.argument_inputs[k]]) && !recording.copies[k].defined() &&
        recording.arguments[k] != place_of(*arguments[k]))
      return false;
  for (size_t k = 0; k < recording.bound.size(); ++k) {
    const uint32_t i = program_.bound_inputs[k];
    if (is_fixed(program_.inputs[i]) && recording.bound[k] != place_of(program_.trace.bound[i])) return false;
  }
  return true;
}

void GraphedCalls::follow(const at::Tensor* const* arguments) {
  const bool is_first = facts_.plain + facts_.replayed == 0;
  for (size_t k = 0; k < places_.size(); ++k) {
    const BoundInput& input = program_.inputs[program_.argument_inputs[k]];
    if (!is_fixed(input)) continue;
    const void* const place = place_of(*arguments[k]);
    if (std::exchange(places_[k], place) == place || is_first) continue;
    moves_[k] = true;
    if (input.written || input.is_shared)
      return give_up(concat("`", program_.trace.graph->inputs()[program_.argument_inputs[k]].name,
                            "`, which it writes, lies elsewhere at every call"));
  }
  std::erase_if(recordings_, [&](const auto& recording) { return !is_at_home(*recording, arguments); });
}

bool GraphedCalls::run(const at::Tensor* const* arguments, at::Tensor* results) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  std::shared_ptr<Recording> recording;
  const c10::DeviceGuard guard(parts_.place);
  if (facts_.skipped.empty()) {
    follow(arguments);
    if (facts_.plain + facts_.replayed > 0 && facts_.skipped.empty())
      recording = pick(arguments, current_stream(parts_.place));
  }
  if (!recording) {
    ++facts_.plain;
    return false;
  }
  bool is_replay = false;
  try {
    is_replay = perform(recording, arguments, results);
  } catch (...) {  // A direct step's error is the user's to see; the walk ended somewhere.
    std::erase(recordings_, recording);
    throw;
  }
  ++(is_replay ? facts_.replayed : facts_.plain);
  return true;
}

std::shared_ptr<GraphedCalls::Recording> GraphedCalls::pick(const at::Tensor* const* arguments, void* stream) {
  if (is_recording(stream)) return nullptr;
  for (const auto& recording : recordings_)
    if (recording->stream == stream && recording->is_free()) return recording;
  if (recordings_.size() >= kMostAtOnce) return nullptr;
  if (facts_.recorded == kMostEver) {
    give_up(concat("its tensors lay elsewhere than at the call before ", kMostEver, " times"));
    return nullptr;
  }
  try {
    return recordings_.emplace_back(prepare(arguments, stream));
  } catch (const c10::Error& error) {  // Out of memory, that is.
    give_up(error.what_without_backtrace());
    return nullptr;
  }
}

std::shared_ptr<GraphedCalls::Recording> GraphedCalls::prepare(const at::Tensor* const* arguments,
                                                               void* stream) const {
  auto made = std::make_shared<Recording>();
  made->stream = stream;
  made->frame = program_.make_frame();
  made->parts.resize(parts_.parts.size());
  std::vector<const at::Tensor*> fixed(arguments, arguments + places_.size());
  for (size_t k = 0; k < places_.size(); ++k) {
    made->arguments.push_back(place_of(*arguments[k]));
    made->copies.push_back(moves_[k] ? program_.inputs[program_.argument_inputs[k]].expected.allocate()
                                     : at::Tensor());
  }
  for (size_t k = 0; k < places_.size(); ++k)
    if (moves_[k]) fixed[k] = &made->copies[k];
  for (const uint32_t i : program_.bound_inputs) made->bound.push_back(place_of(program_.trace.bound[i]));
  for (const BoundOutput& output : program_.outputs)
    if (std::ranges::find(made->buffers, output.buffer) == made->buffers.end())
      made->buffers.push_back(output.buffer);
  program_.load_inputs(*made->frame, fixed.data());
  place_temporaries(*made, /*may_share=*/is_undivided());
  program_.allocate_outputs(*made->frame, /*all=*/true);
  return made;
}

bool GraphedCalls::is_undivided() const {
  return parts_.parts.size() == 1 && (!program_.any_written || parts_.records_writes);
}

void GraphedCalls::place_temporaries(Recording& made, bool may_share) const {
  for (const BoundDevice& on : program_.devices) {
    if (on.device->keeps_temporaries() || on.begin == on.end) continue;
    const bool is_shared = may_share && on.place == parts_.place;
    made.frame->arenas.push_back(is_shared ? shared_arena(on, made.stream)
                                           : on.device->allocate_temporaries(on.end - on.begin));
    program_.place_temporaries(on, made.frame->arenas.back(), *made.frame);
  }
}

void GraphedCalls::load(Recording& recording, const at::Tensor* const* arguments) const {
  Frame& frame = *recording.frame;
  program_.load_arguments(frame, arguments);
  if (program_.any_written) program_.check_aliasing(frame);
  for (size_t k = 0; k < places_.size(); ++k)
    if (const at::Tensor& copy = recording.copies[k]; copy.defined()) {
      const uint32_t i = program_.argument_inputs[k];
      copy_elements(copy, *arguments[k], program_.inputs[i].expected.bytes(), recording.stream);
      frame.inputs[i] = &copy;
    }
  for (const auto& [i, copy] : frame.realigned)
    if (is_fixed(program_.inputs[i]))
      copy_elements(copy, *frame.inputs[i], program_.inputs[i].expected.bytes(), recording.stream);
  std::erase_if(frame.realigned, [&](const auto& each) { return !is_fixed(program_.inputs[each.first]); });
  for (const auto& [buffer, i] : program_.input_buffers)
    if (!is_fixed(program_.inputs[i])) program_.load_input(frame, buffer, i);
}

bool GraphedCalls::record(Recording& recording, size_t part, const at::Tensor* const* arguments) {
  const GraphPart& steps = parts_.parts[part];
  const bool is_last = part + 1 == parts_.parts.size();
  Frame& frame = *recording.frame;
  const std::vector<at::Tensor> before = frame.owned;
  uint32_t at = steps.end;  // Beginning, and ending, may fail as well.
  try {
    recording.parts[part].graph = cuda_graph_recorder()->record(parts_.place, [&] {
      const c10::impl::ExcludeDispatchKeyGuard below_autograd(recorded_keys());
      const bool is_told = is_profiled();
      for (at = steps.begin; at < steps.end; ++at)
        program_.run_steps(frame, std::span(program_.steps).subspan(at, 1), nullptr, is_told);
      if (is_last && program_.any_written && parts_.records_writes) program_.write_back(frame, arguments);
      for (const uint32_t buffer : steps.shared) recording.parts[part].shared.push_back(frame.owned[buffer]);
    });
    return true;
  } catch (const LateError&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    give_up(error.what_without_backtrace());
  } catch (const std::exception& error) {  // An operator that waits for the device, say.
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string said = of_torch ? of_torch->what_without_backtrace() : error.what();
    if (at == steps.end || refused_.size() == kMostRefused) {
      give_up(said);
    } else {
      const BoundStep& step = program_.steps[at];
      refused_.emplace(at, step.is_region ? said : concat(program_.calls[step.index]->name, ": ", said));
      cuda_graph_recorder()->tell(concat("a step is not recorded: ", refused_.at(at)));
    }
  }
  frame.owned = before;
  // Memory that others share is theirs whenever this thread is not putting a whole graph on the stream.
  if (is_undivided()) place_temporaries(recording, /*may_share=*/false);
  return false;
}

void GraphedCalls::settle(Recording& recording, size_t part) const {
  Frame& frame = *recording.frame;
  const std::vector<uint32_t>& buffers = parts_.parts[part].shared;
  std::vector<at::Tensor>& places = recording.parts[part].shared;
  const bool is_first = places.empty();
  for (size_t k = 0; k < buffers.size(); ++k) {
    at::Tensor& made = frame.owned[buffers[k]];
    const Geometry& geometry = program_.buffer_geometry[buffers[k]];
    if (is_first)  // Recorded parts look at a copy from now on: the operator may keep what it gave.
      places.push_back(copy_to(made, geometry));
    else
      copy_elements(places[k], made, geometry.span * static_cast<int64_t>(made.itemsize()), recording.stream);
    made = places[k];
    frame.addresses[buffers[k]] = made.mutable_data_ptr();
  }
}

bool GraphedCalls::perform(const std::shared_ptr<Recording>& recording, const at::Tensor* const* arguments,
                           at::Tensor* results) {
  if (program_.reports_late) program_.check_late();
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(recorded_keys());
  Frame& frame = *recording->frame;
  load(*recording, arguments);
  bool is_new = false, is_good = true;
  for (size_t p = 0; p < parts_.parts.size(); ++p) {
    const GraphPart& part = parts_.parts[p];
    Recording::Part& mine = recording->parts[p];
    if (part.is_recorded && is_good && !mine.graph) {
      is_new = true;
      is_good = record(*recording, p, arguments);
    }
    if (mine.graph) {
      mine.graph->replay();
      for (size_t k = 0; k < part.shared.size(); ++k) frame.owned[part.shared[k]] = mine.shared[k];
      continue;
    }
    program_.run_steps(frame, std::span(program_.steps).subspan(part.begin, part.end - part.begin), nullptr,
                       is_profiled());
    if (!part.is_recorded && is_good) settle(*recording, p);
  }
  if (program_.any_written) {
    if (!parts_.records_writes || !is_good) program_.write_back(frame, arguments);
    program_.count_writes(arguments);
  }
  if (!is_good) {
    program_.make_results(frame, arguments, results);
    if (facts_.skipped.empty()) split();
    return false;
  }
  if (is_new) {
    ++facts_.recorded;
    cuda_graph_recorder()->tell(concat("recorded ", parts_.graphs() == 1 ? "a CUDA graph" : "CUDA graphs", " of ",
                                       program_.steps.size(), " steps"));
  }
  give_results(recording, arguments, results);
  return true;
}

void GraphedCalls::give_results(const std::shared_ptr<Recording>& recording, const at::Tensor* const* arguments,
                                at::Tensor* results) const {
  Frame& frame = *recording->frame;
  recording->given.clear();
  Frame given;
  given.owned.resize(frame.owned.size());
  const auto is_held = [&](uint32_t buffer) {
    if (program_.plan.buffers[buffer].kind != loops::BufferKind::call) return true;
    return std::ranges::any_of(parts_.parts, [&](const GraphPart& part) {
      return std::ranges::find(part.shared, buffer) != part.shared.end();
    });
  };
  for (const uint32_t buffer : recording->buffers)
    given.owned[buffer] =
        is_held(buffer) ? Recording::give(recording, frame.owned[buffer]) : std::move(frame.owned[buffer]);
  for (uint32_t b = 0; b < frame.owned.size(); ++b)
    if (program_.plan.buffers[b].kind == loops::BufferKind::call) frame.owned[b].reset();
  program_.make_results(given, arguments, results);
}

}  // namespace braze::runtime
