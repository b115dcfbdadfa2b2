#include "runtime/device/cuda/region.h"

#include <c10/core/DeviceGuard.h>

#include "runtime/device/cuda/device.h"
#include "support/error.h"

namespace braze::runtime {

void CudaRegion::add(const codegen::CompiledKernel& kernel, uint32_t first_pointer,
                     const std::vector<uint64_t>& scalars, const LaunchSizes& sizes) {
  BRAZE_CHECK(sizes.symbols.empty(), "kernels of a GPU have no symbols");
  const c10::DeviceGuard guard(place_);
  launches_.push_back(
      {device::cuda::load(kernel, place_.index()), first_pointer, static_cast<uint32_t>(scalars_.size())});
  scalars_.insert(scalars_.end(), scalars.begin(), scalars.end());
}

void CudaRegion::run(void* const* pointers, int64_t*) const {
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  for (const Launch& launch : launches_)
    device::cuda::launch(*launch.module, pointers + launch.first_pointer, scalars_.data() + launch.first_scalar,
                         /*symbols=*/nullptr, status_, stream);
}

}  // namespace braze::runtime
