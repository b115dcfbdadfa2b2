// runtime/device/cuda/region.h: kernels on the current stream, which runs them in order: barriers are free.
#pragma once

#include <memory>

#include "device/cuda/module.h"
#include "runtime/device/device.h"

namespace braze::runtime {

class CudaRegion final : public Region {
 public:
  /// \param status  a word that kernels of the device can write, and that outlives all of them.
  CudaRegion(c10::Device place, int64_t* status) : place_(place), status_(status) {}
  void add_barrier() override {}
  /// Loads the kernel's code into the device. Throws UserError with the driver's words where that fails.
  void add(const codegen::CompiledKernel& kernel, uint32_t first_pointer, const std::vector<uint64_t>& scalars,
           const LaunchSizes& sizes) override;
  void run(void* const* pointers, int64_t* status) const override;
  void run_watched(void* const* pointers, int64_t* status, LaunchWatch& watch) const override;

 private:
  struct Launch {
    std::shared_ptr<const device::cuda::Module> module;
    uint32_t first_pointer, first_scalar, first_symbol;
  };
  void launch(size_t number, void* const* pointers, void* stream) const;

  const c10::Device place_;
  int64_t* const status_;
  std::vector<Launch> launches_;
  std::vector<uint64_t> scalars_;
  std::vector<int64_t> symbols_;
};

}  // namespace braze::runtime
