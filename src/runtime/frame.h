// runtime/frame.h: what one call of a program needs for itself. Frames are reused; a program called from n threads
// at once has n of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "loops/plan.h"
#include "runtime/geometry.h"

namespace braze::runtime {

/// A tensor over memory that it does not own, made once per frame: building one at every call would cost 200 ns.
struct PrebuiltView {
  loops::View view;
  Geometry geometry;
  bool in_arena = false;  ///< Its address is known with that of the temporaries; else it is set before every use.
};

struct Frame {
  std::vector<at::Tensor> kept_arenas;    ///< Bytes; hold every temporary of devices that keep them,
  std::vector<at::Tensor> arenas;         ///< and of others, during a call.
  std::vector<void*> addresses;           ///< Of the first element, by plan buffer.
  std::vector<void*> pointers;            ///< Of every kernel step's parameters, one after the other.
  std::vector<at::Tensor> views;          ///< By Impl::prebuilt.
  std::vector<at::Tensor> owned;          ///< By plan buffer: outputs and results of calls, during a call.
  std::vector<const at::Tensor*> inputs;  ///< By graph input, during a call.
  std::vector<std::pair<uint32_t, at::Tensor>> realigned;  ///< Inputs that had to be copied to an aligned address.
  std::vector<const char*> checked;  ///< Where the inputs lay when they were last found to overlap as traced.
  std::vector<c10::IValue> stack;    ///< Of boxed calls.
  int64_t status = 0;
  Frame* next = nullptr;  ///< In the pool's list.

  /// Drops every tensor of the call that has ended.
  void clear();
};

/// Sets where a prebuilt view points.
void point_at(const at::Tensor& view, void* address);

/// Hands out frames. One call at a time, the common case, costs two atomic exchanges.
class FramePool {
 public:
  ~FramePool();
  std::unique_ptr<Frame> take();  ///< Null: make one.
  void put(std::unique_ptr<Frame> frame);
  void clear();  ///< Drops the frames that nobody has taken.

 private:
  std::atomic<Frame*> single_{nullptr};
  std::mutex mutex_;  ///< Protects others_.
  std::vector<std::unique_ptr<Frame>> others_;
};

}  // namespace braze::runtime
