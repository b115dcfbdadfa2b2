#include "runtime/device/cuda/region.h"

#include <c10/core/DeviceGuard.h>

#include "runtime/device/cuda/device.h"

namespace braze::runtime {

void CudaRegion::add(const codegen::CompiledKernel& kernel, uint32_t first_pointer,
                     const std::vector<uint64_t>& scalars, const LaunchSizes& sizes) {
  const c10::DeviceGuard guard(place_);
  launches_.push_back({device::cuda::load(kernel, place_.index()), first_pointer,
                       static_cast<uint32_t>(scalars_.size()), static_cast<uint32_t>(symbols_.size())});
  scalars_.insert(scalars_.end(), scalars.begin(), scalars.end());
  symbols_.insert(symbols_.end(), sizes.symbols.begin(), sizes.symbols.end());
}

void CudaRegion::launch(size_t number, void* const* pointers, void* stream) const {
  const Launch& launch = launches_[number];
  device::cuda::launch(*launch.module, pointers + launch.first_pointer, scalars_.data() + launch.first_scalar,
                       symbols_.data() + launch.first_symbol, status_, stream);
}

void CudaRegion::run(void* const* pointers, int64_t*) const {
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  for (size_t k = 0; k < launches_.size(); ++k) launch(k, pointers, stream);
}

void CudaRegion::run_watched(void* const* pointers, int64_t*, LaunchWatch& watch) const {
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  for (size_t k = 0; k < launches_.size(); ++k) {
    watch.begin(k);
    launch(k, pointers, stream);
    watch.end(k);
  }
}

}  // namespace braze::runtime
