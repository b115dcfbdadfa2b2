#include "runtime/device/device.h"

#include "runtime/device/cpu/device.h"
#include "runtime/device/cuda/device.h"
#include "support/error.h"

namespace braze::runtime {

bool is_supported(c10::Device place, std::string* why_not) {
  if (place.is_cpu()) return true;
  if (place.is_cuda()) return CudaDevice::is_supported(place, why_not);
  if (why_not) *why_not = concat("braze generates code for CPUs and CUDA devices, not for ", place.str());
  return false;
}

std::unique_ptr<Device> make_device(c10::Device place) {
  std::string why_not;
  if (!is_supported(place, &why_not)) throw UserError(why_not);
  if (place.is_cpu()) return std::make_unique<CpuDevice>();
  return std::make_unique<CudaDevice>(place);
}

}  // namespace braze::runtime
