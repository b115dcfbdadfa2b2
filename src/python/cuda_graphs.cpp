#include "python/cuda_graphs.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pybind11/pybind11.h>

#include <map>
#include <optional>

#include "runtime/cuda_graphs.h"
#include "support/error.h"
#ifdef BRAZE_INTERPRETER
#include "python/compile/events.h"
#include "python/interpreter/evaluate.h"
#endif

namespace braze::python {

namespace py = pybind11;

namespace {

/// Python's lock, and none of what runs is the user's program.
struct Entered {
  py::gil_scoped_acquire locked;
#ifdef BRAZE_INTERPRETER
  interpreter::Pause pause;
#endif
};

/// What `torch.cuda.graph_pool_handle()` gives: memory that recordings lend each other. PyTorch forgets it with the
/// last of them.
using Pool = std::shared_ptr<const py::object>;

class PythonGraph final : public runtime::CudaGraph {
 public:
  PythonGraph(py::object graph, Pool pool)
      : pool_(std::move(pool)), graph_(std::move(graph)), replay_(graph_.attr("replay")) {}
  ~PythonGraph() override {
    if (!Py_IsInitialized()) {  // With it goes the driver: there is nothing left to give back.
      replay_.release();
      graph_.release();
      if (pool_.use_count() == 1) new Pool(std::move(pool_));
      return;
    }
    const Entered entered;
    replay_ = {};
    graph_ = {};
    pool_ = {};
  }
  PythonGraph(const PythonGraph&) = delete;
  PythonGraph& operator=(const PythonGraph&) = delete;

  void replay() const override {
    const py::gil_scoped_acquire locked;
    replay_();
  }

 private:
  Pool pool_;
  py::object graph_, replay_;  ///< torch._C._CUDAGraph, and its bound method.
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

 private:
  /// What recordings for one stream share: the stream that they are recorded on, and their memory.
  struct Place {
    c10::Stream side;
    std::weak_ptr<const py::object> pool;
  };
  std::map<c10::Stream, Place, bool (*)(const c10::Stream&, const c10::Stream&)> places_{
      [](const c10::Stream& a, const c10::Stream& b) {
        return std::pair(a.device_index(), a.id()) < std::pair(b.device_index(), b.id());
      }};  ///< Guarded by Python's lock.

  std::unique_ptr<runtime::CudaGraph> record_locked(c10::Device place, const std::function<void()>& work) {
    const py::module_ torch = py::module_::import("torch._C");
    const c10::impl::VirtualGuardImpl streams(place.type());
    const c10::Stream current = streams.getStream(place);
    auto found = places_.find(current);
    if (found == places_.end())
      found = places_.emplace(current, Place{streams.getStreamFromGlobalPool(place), {}}).first;
    Pool pool = found->second.pool.lock();
    if (!pool) {
      pool = std::make_shared<const py::object>(torch.attr("_graph_pool_handle")());
      found->second.pool = pool;
    }
    py::object graph = torch.attr("_CUDAGraph")();
    const c10::StreamGuard guard(found->second.side);
    // Other threads may go on allocating and waiting.
    graph.attr("capture_begin")(py::arg("pool") = *pool, py::arg("capture_error_mode") = "thread_local");
    try {
      work();
    } catch (...) {
      // The work's own error is the one to tell.
      try {
        graph.attr("capture_end")();
      } catch (const py::error_already_set&) {
      }
      throw;
    }
    graph.attr("capture_end")();
    return std::make_unique<PythonGraph>(std::move(graph), std::move(pool));
  }
};

}  // namespace

void install_cuda_graphs() {
  runtime::set_cuda_graph_recorder(std::make_unique<PythonRecorder>());
}

}  // namespace braze::python
