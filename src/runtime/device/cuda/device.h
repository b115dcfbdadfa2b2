// runtime/device/cuda/device.h: a CUDA device, by PyTorch's interfaces that need neither CUDA's headers nor its
// libraries, so that one build serves machines with and without it.
#pragma once

#include "runtime/device/cuda/status.h"
#include "runtime/device/device.h"

namespace braze::runtime {

class CudaDevice final : public Device {
 public:
  static bool is_supported(c10::Device place, std::string* why_not);
  /// So many bytes for work on the current stream.
  static at::Tensor allocate(c10::Device place, int64_t bytes);

  explicit CudaDevice(c10::Device place) : place_(place) {}
  std::unique_ptr<Region> make_region() override;
  void expect_result(const Geometry&) override {}
  at::Tensor allocate_result(const Geometry& geometry, bool zeroed) const override;
  /// From the caching allocator, for the current stream: a call of another stream would not wait for this one's
  /// kernels.
  at::Tensor allocate_temporaries(int64_t bytes) const override;
  bool keeps_temporaries() const override { return false; }
  bool reports_late() const override { return true; }
  int64_t take_status() const override { return status_.take(); }

 private:
  const c10::Device place_;
  const StatusWord status_;
};

/// The handle (CUstream) of the device's current stream on this thread.
void* current_stream(c10::Device place);
/// Work that is being put on the stream is part of somebody's recording. What the driver refuses to say is taken
/// for one, too: it does where another stream of the process records.
bool is_recording(void* stream);

}  // namespace braze::runtime
