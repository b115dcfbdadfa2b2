#include "runtime/device/cpu/device.h"

#include "runtime/device/cpu/region.h"

namespace braze::runtime {

std::unique_ptr<Region> CpuDevice::make_region() {
  return std::make_unique<CpuRegion>();
}

void CpuDevice::expect_result(const Geometry& geometry) {
  if (!OutputPool::wants(geometry.bytes())) return;
  if (!pool_) pool_ = std::make_unique<OutputPool>();
  pool_->expect(geometry.bytes());
}

at::Tensor CpuDevice::allocate_result(const Geometry& geometry, bool zeroed) const {
  if (zeroed) return OutputPool::allocate_zeros(geometry);
  return pool_ && OutputPool::wants(geometry.bytes()) ? pool_->allocate(geometry) : geometry.allocate();
}

at::Tensor CpuDevice::allocate_temporaries(int64_t bytes) const {
  return Geometry::of(ir::DType::u8, c10::Device(c10::kCPU), {bytes}, {1}).allocate();
}

}  // namespace braze::runtime
