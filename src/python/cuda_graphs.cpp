#include "python/cuda_graphs.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <map>
#include <utility>

#include "python/imported.h"
#include "runtime/cuda_graphs.h"
#include "support/error.h"
#ifdef BRAZE_INTERPRETER
#include "python/compile/events.h"
#include "python/interpreter/evaluate.h"
#endif

namespace braze::python {

namespace py = pybind11;

namespace {

/// the GIL, and none of what runs is the user's program.
struct Entered {
  py::gil_scoped_acquire locked;
#ifdef BRAZE_INTERPRETER
  interpreter::Pause pause;
#endif
};

class PythonGraph final : public runtime::CudaGraph {
 public:
  explicit PythonGraph(py::object graph) : graph_(std::move(graph)), replay_(graph_.attr("replay")) {}
  ~PythonGraph() override {
    if (!Py_IsInitialized()) {  // With it goes the driver: there is nothing left to give back.
      replay_.release();
      graph_.release();
      return;
    }
    const Entered entered;
    replay_ = {};
    graph_ = {};
  }
  PythonGraph(const PythonGraph&) = delete;
  PythonGraph& operator=(const PythonGraph&) = delete;

  void replay() const override {
    const py::gil_scoped_acquire locked;
    replay_();
  }

 private:
  py::object graph_, replay_;  ///< torch._C._CUDAGraph, and its bound method.
};

/// While it lives, the second stream does what the first one had been given before; then the first one waits for
/// it.
class InTurn {
 public:
  InTurn(c10::Stream first, c10::Stream second) : first_(first), second_(second) { queue(second_, first_); }
  ~InTurn() {
    try {
      queue(first_, second_);
    } catch (const c10::Error&) {  // The device is lost: what is called next says so.
    }
  }
  InTurn(const InTurn&) = delete;
  InTurn& operator=(const InTurn&) = delete;

 private:
  static void queue(const c10::Stream& later, const c10::Stream& sooner) {
    c10::Event event(sooner.device_type());
    event.record(sooner);
    event.block(later);
  }
  c10::Stream first_, second_;
};

class PythonRecorder final : public runtime::CudaGraphRecorder {
 public:
  std::unique_ptr<runtime::CudaGraph> record(c10::Device place, const std::function<void()>& work) override {
    const Entered entered;
    try {
      return record_locked(place, work);
    } catch (const py::error_already_set& error) {
      throw UserError(error.what());
    }
  }

  void tell([[maybe_unused]] std::string_view text) noexcept override {
#ifdef BRAZE_INTERPRETER
    if (!is_enabled(Event::cudagraphs)) return;
    const py::gil_scoped_acquire locked;
    emit(Event::cudagraphs, text);
#endif
  }

  uint64_t epoch() const noexcept override { return epoch_; }

 private:
  /// By the stream that recordings are for, (device, id): where they are made. One each, since libraries keep a
  /// workspace a stream, which becomes part of what is recorded. Guarded by the GIL.
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, c10::Stream> sides_;
  std::atomic<uint64_t> epoch_{0};

  std::unique_ptr<runtime::CudaGraph> record_locked(c10::Device place, const std::function<void()>& work) {
    const py::module_ torch = imported("torch._C");
    const c10::impl::VirtualGuardImpl streams(place.type());
    const c10::Stream current = streams.getStream(place);
    const std::pair key(current.device_index(), current.id());
    auto side = sides_.find(key);
    if (side == sides_.end()) side = sides_.emplace(key, streams.getStreamFromGlobalPool(place)).first;
    py::object graph = torch.attr("_CUDAGraph")();
    // Memory of its own: results of one recording may be in use while another, made earlier, is replayed.
    const py::object pool = torch.attr("_graph_pool_handle")();
    // PyTorch sets its generator's words in memory on the side when it begins, which kernels that have been started
    // may be reading, and again on the current stream when the graph is started.
    const InTurn in_turn(current, side->second);
    const c10::StreamGuard guard(side->second);
    // Other threads may go on allocating and waiting.
    try {
      graph.attr("capture_begin")(py::arg("pool") = pool, py::arg("capture_error_mode") = "thread_local");
      try {
        work();
      } catch (...) {
        // The work's own error is the one to tell.
        try {
          graph.attr("capture_end")();
        } catch (const py::error_already_set&) {
          abandon(std::move(graph), pool, place);
        }
        forget_error(place);
        throw;
      }
      graph.attr("capture_end")();
    } catch (const py::error_already_set&) {
      if (graph) abandon(std::move(graph), pool, place);
      throw;
    }
    return std::make_unique<PythonGraph>(std::move(graph));
  }

  /// What PyTorch leaves of a recording that it could not end: its allocator goes on asking the graph whether
  /// memory is for it, so that the graph must stay; and the device's generator waits for its end, so that numbers
  /// go on from another one, which recordings so far do not move on.
  void abandon(py::object graph, const py::object& pool, c10::Device place) {
    graph.release();
    const py::module_ torch = imported("torch._C");
    try {
      torch.attr("_cuda_endAllocateToPool")(py::int_(place.index()), pool);
      torch.attr("_cuda_releasePool")(py::int_(place.index()), pool);
    } catch (const py::error_already_set&) {  // It had not begun.
    }
    replace_generator(place);
  }

  /// A library that was refused something leaves it as the runtime's last error, and the next kernel of PyTorch's
  /// takes it for its own: this one does, in vain.
  static void forget_error(c10::Device place) {
    try {
      at::full({1}, 0.5, at::TensorOptions().device(place));
    } catch (const c10::Error&) {
    }
  }

  void replace_generator(c10::Device place) {
    const py::object generator = imported("torch.cuda").attr("default_generators")[py::int_(place.index())];
    const py::object fresh = imported("torch").attr("Generator")(place.str());
    fresh.attr("manual_seed")(generator.attr("initial_seed")());
    fresh.attr("set_offset")(generator.attr("get_offset")());
    generator.attr("graphsafe_set_state")(fresh.attr("graphsafe_get_state")());
    ++epoch_;
  }
};

}  // namespace

void install_cuda_graphs() {
  runtime::set_cuda_graph_recorder(std::make_unique<PythonRecorder>());
}

}  // namespace braze::python
