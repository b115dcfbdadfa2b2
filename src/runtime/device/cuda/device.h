// runtime/device/cuda/device.h: a CUDA device, by PyTorch's interfaces that need neither CUDA's headers nor its
// libraries, so that one build serves machines with and without it.
#pragma once

#include "runtime/device/cuda/status.h"
#include "runtime/device/device.h"

namespace braze::runtime {

class CudaDevice final : public Device {
 public:
  static bool is_supported(c10::Device place, std::string* why_not);

  explicit CudaDevice(c10::Device place) : place_(place) {}
  std::unique_ptr<Region> make_region() override;
  void expect_result(const Geometry&) override {}
  at::Tensor allocate_result(const Geometry& geometry) const override;
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

}  // namespace braze::runtime
