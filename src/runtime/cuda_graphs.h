// runtime/cuda_graphs.h: work of a CUDA stream, recorded once and started as a whole.
//
// PyTorch's allocator and random generators have to take part in a recording. The versions that braze is built for
// let only Python ask them to; so whoever loads Python says how work is recorded (python/cuda_graphs.cpp).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace braze::runtime {

/// Recorded work. What it reads and writes lies at the addresses of the recording.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  /// Starts it on the device's current stream. Generators move on as if its operators had been called.
  virtual void replay() const = 0;
};

class CudaGraphRecorder {
 public:
  virtual ~CudaGraphRecorder() = default;
  /// Calls `work` once, with another stream as the current one, which runs nothing of it. Memory that it allocates
  /// is the recording's; what it frees again is lent to the next recordings that were made for the same current
  /// stream. Throws what `work` throws, and UserError for what cannot be recorded; the stream is usable as before.
  virtual std::unique_ptr<CudaGraph> record(c10::Device place, const std::function<void()>& work) = 0;
  /// Recordings of an earlier epoch draw numbers from a generator that is no longer the device's.
  virtual uint64_t epoch() const noexcept = 0;
  /// For the user's log "cudagraphs".
  virtual void tell(std::string_view text) noexcept = 0;
};

/// Null where there is no Python.
CudaGraphRecorder* cuda_graph_recorder() noexcept;
/// Once a process.
void set_cuda_graph_recorder(std::unique_ptr<CudaGraphRecorder> recorder);

}  // namespace braze::runtime
