#include "capture/devices.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>

#include "capture/arguments.h"
#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {

namespace {

// Of the process: kernels and flags are its, too.
std::atomic<bool> met_cuda{false};
std::atomic<c10::DeviceIndex> first_device{0};

c10::DeviceIndex current_device() {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index();
}

}  // namespace

c10::Device to_torch(ir::Device device) {
  switch (device.kind) {
    case ir::DeviceKind::cpu: return c10::Device(c10::kCPU);
    case ir::DeviceKind::cuda: return c10::Device(c10::kCUDA, device.index);
    case ir::DeviceKind::meta: return c10::Device(c10::kMeta);
  }
  BRAZE_CHECK(false, "unknown device");
}

bool has_met_cuda() noexcept {
  return met_cuda.load(std::memory_order_acquire);
}

void has_met(c10::Device device) {
  if (!device.is_cuda() || has_met_cuda()) return;
  if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) first_device = current_device();
  met_cuda.store(true, std::memory_order_release);
}

c10::DeviceIndex first_cuda_device() noexcept {
  return first_device;
}

c10::Device numbered(c10::Device device) {
  if (device.is_cpu()) return c10::Device(c10::kCPU);
  if (!device.is_cuda() || device.has_index()) return device;
  has_met(device);
  return {c10::kCUDA, current_device()};
}

CallDevice device_of(std::span<const c10::IValue> arguments) {
  CallDevice found;
  bool any_number = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor)) return;
    const c10::Device device = tensor.device();
    if (device.is_cpu() && tensor.dim() == 0) {
      any_number = true;
      return;
    }
    if (!found.device) found.device = device;
    found.is_one &= *found.device == device;
  });
  if (!found.device && any_number) found.device = c10::Device(c10::kCPU);
  found.has_numbers = any_number && !found.device->is_cpu();
  return found;
}

}  // namespace braze::capture
