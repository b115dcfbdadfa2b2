#include "runtime/graphed_calls.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "device/cuda/driver.h"
#include "runtime/device/cuda/device.h"
#include "runtime/profiler_range.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

constexpr size_t kMostAtOnce = 3;  ///< Recordings: of two, one is free where results live until the next are there.
constexpr int64_t kMostEver = 16;  ///< Of a program whose tensors move again and again.

/// One for the process, as the modules that it reaches are.
std::unique_ptr<CudaGraphRecorder>& recorder_slot() {
  static auto* slot = new std::unique_ptr<CudaGraphRecorder>;  // Never destroyed: graphs may be, later.
  return *slot;
}

const void* place_of(const at::Tensor& tensor) {
  return tensor.const_data_ptr();
}

/// Work that is being put on the stream is part of somebody's recording. What the driver refuses to say is taken
/// for one, too: it does where another stream of the process records.
bool is_recording(void* stream) {
  constexpr int kNone = 0;
  int status = kNone;
  const auto result =
      device::cuda::driver().cuStreamIsCapturing(static_cast<device::cuda::Stream>(stream), &status);
  return result != 0 || status != kNone;
}

void copy_elements(const at::Tensor& to, const at::Tensor& from, int64_t bytes, void* stream) {
  if (bytes == 0) return;
  device::cuda::check(
      device::cuda::driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<device::cuda::Address>(to.mutable_data_ptr()),
                                                  reinterpret_cast<device::cuda::Address>(from.const_data_ptr()),
                                                  bytes, static_cast<device::cuda::Stream>(stream)),
      "copying an argument of a CUDA graph");
}

}  // namespace

CudaGraphRecorder* cuda_graph_recorder() noexcept {
  return recorder_slot().get();
}

void set_cuda_graph_recorder(std::unique_ptr<CudaGraphRecorder> recorder) {
  recorder_slot() = std::move(recorder);
}

struct GraphedCalls::Recording {
  void* stream = nullptr;
  uint64_t epoch = cuda_graph_recorder()->epoch();
  std::unique_ptr<Frame> frame;        ///< Its tensors are the memory of results.
  std::vector<uint32_t> buffers;       ///< Plan buffers of results.
  std::vector<at::Tensor> copies;      ///< By argument; undefined: it is read where it lies,
  std::vector<const void*> arguments;  ///< which is here.
  std::vector<const void*> bound;      ///< By Impl::bound_inputs.
  std::unique_ptr<CudaGraph> graph;    ///< Goes first.
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
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), held.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(held.sizes(), held.strides(), held.storage_offset());
  return tensor;
}

GraphedCalls::GraphedCalls(const Program::Impl& program)
    : program_(program), places_(program.argument_inputs.size()), moves_(program.argument_inputs.size()) {
  if (std::string why = obstacle(); !why.empty()) give_up(std::move(why));
}

GraphedCalls::~GraphedCalls() = default;

CudaGraphFacts GraphedCalls::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

std::string GraphedCalls::obstacle() const {
  if (!cuda_graph_recorder()) return "CUDA graphs are recorded through PyTorch's Python modules, and there is none";
  if (program_.devices.empty()) return "it has no kernels and no memory on a GPU";
  const c10::Device place = program_.devices.front().place;
  if (program_.devices.size() > 1 || !place.is_cuda()) return "parts of it run on the CPU or on another device";
  if (!program_.places.empty()) return "an argument is viewed as larger elements";
  for (size_t k = 0; k < program_.inputs.size(); ++k)
    if (program_.inputs[k].expected.device != place)
      return concat("`", program_.trace.graph->inputs()[k].name, "` lies on ",
                    program_.inputs[k].expected.device.str());
  if (program_.steps.empty()) return "it runs nothing";
  for (const auto& call : program_.calls)
    if (!call->name.starts_with("aten::") && !call->name.starts_with("braze::"))
      return concat("nobody knows what ", call->name, " does beside what is recorded");
  for (const auto& call : program_.calls)
    for (const ResultRef& result : call->results)
      if (result.kind != ResultRef::Kind::unused && result.planned.device != place)
        return concat(call->name, " gives a tensor on ", result.planned.device.str());
  for (const c10::IValue& object : program_.trace.objects)
    if (object.isGenerator()) return "it draws from a generator of its own";
  return "";
}

void GraphedCalls::give_up(std::string why) {
  facts_.skipped = std::move(why);
  recordings_.clear();
  if (CudaGraphRecorder* recorder = cuda_graph_recorder())
    recorder->tell(concat("no CUDA graph: ", facts_.skipped));
}

bool GraphedCalls::is_at_home(const Recording& recording, const at::Tensor* const* arguments) const {
  if (recording.epoch != cuda_graph_recorder()->epoch()) return false;
  for (size_t k = 0; k < places_.size(); ++k)
    if (!recording.copies[k].defined() && recording.arguments[k] != place_of(*arguments[k])) return false;
  for (size_t k = 0; k < recording.bound.size(); ++k)
    if (recording.bound[k] != place_of(program_.trace.bound[program_.bound_inputs[k]])) return false;
  return true;
}

void GraphedCalls::follow(const at::Tensor* const* arguments) {
  const bool is_first = facts_.plain + facts_.replayed == 0;
  for (size_t k = 0; k < places_.size(); ++k) {
    const void* const place = place_of(*arguments[k]);
    if (std::exchange(places_[k], place) == place || is_first) continue;
    moves_[k] = true;
    const BoundInput& input = program_.inputs[program_.argument_inputs[k]];
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
  const c10::Device place = program_.devices.empty() ? c10::Device(c10::kCPU) : program_.devices.front().place;
  if (facts_.skipped.empty()) {
    follow(arguments);
    if (facts_.plain + facts_.replayed > 0 && facts_.skipped.empty()) {
      const c10::DeviceGuard guard(place);
      recording = pick(arguments, current_stream(place));
    }
  }
  if (!recording) {
    ++facts_.plain;
    return false;
  }
  const c10::DeviceGuard guard(place);
  replay(recording, arguments, results);
  ++facts_.replayed;
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
    recordings_.push_back(record(arguments, stream));
    ++facts_.recorded;
    cuda_graph_recorder()->tell(concat("recorded a CUDA graph of ", program_.steps.size(), " steps"));
    return recordings_.back();
  } catch (const LateError&) {
    throw;
  } catch (const std::exception& error) {  // Out of memory, or an operator that waits for the device.
    give_up(error.what());
    return nullptr;
  }
}

std::shared_ptr<GraphedCalls::Recording> GraphedCalls::record(const at::Tensor* const* arguments,
                                                              void* stream) const {
  auto made = std::make_shared<Recording>();
  made->stream = stream;
  made->frame = program_.make_frame();
  std::vector<const at::Tensor*> fixed;
  for (size_t k = 0; k < places_.size(); ++k) {
    made->arguments.push_back(place_of(*arguments[k]));
    made->copies.push_back(moves_[k] ? program_.inputs[program_.argument_inputs[k]].expected.allocate()
                                     : at::Tensor());
  }
  for (size_t k = 0; k < places_.size(); ++k) fixed.push_back(moves_[k] ? &made->copies[k] : arguments[k]);
  for (const uint32_t i : program_.bound_inputs) made->bound.push_back(place_of(program_.trace.bound[i]));
  for (const BoundOutput& output : program_.outputs)
    if (std::ranges::find(made->buffers, output.buffer) == made->buffers.end())
      made->buffers.push_back(output.buffer);

  Frame& frame = *made->frame;
  made->graph = cuda_graph_recorder()->record(program_.devices.front().place, [&] {
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(recorded_keys());
    program_.compute(frame, fixed.data(), nullptr, is_profiled());
    // What is let go of while it records is the recording's all the same.
    std::vector<at::Tensor> results(frame.owned.size());
    for (const uint32_t buffer : made->buffers) results[buffer] = std::move(frame.owned[buffer]);
    frame.clear();
    frame.owned = std::move(results);
  });
  return made;
}

void GraphedCalls::replay(const std::shared_ptr<Recording>& recording, const at::Tensor* const* arguments,
                          at::Tensor* results) {
  if (program_.reports_late) program_.check_late();
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(recorded_keys());
  Frame& frame = *recording->frame;
  program_.load_arguments(frame, arguments);
  if (program_.any_written) program_.check_aliasing(frame);
  for (size_t k = 0; k < places_.size(); ++k)
    if (const at::Tensor& copy = recording->copies[k]; copy.defined())
      copy_elements(copy, *arguments[k], program_.inputs[program_.argument_inputs[k]].expected.bytes(),
                    recording->stream);
  recording->graph->replay();
  if (program_.any_written) program_.count_writes(arguments);

  recording->given.clear();
  Frame given;
  given.owned.resize(frame.owned.size());
  for (const uint32_t buffer : recording->buffers)
    given.owned[buffer] = Recording::give(recording, frame.owned[buffer]);
  program_.make_results(given, arguments, results);
}

}  // namespace braze::runtime
