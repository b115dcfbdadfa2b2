#include "runtime/device/cuda/device.h"

#include <ATen/ops/empty_strided_ops.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "codegen/compiler.h"
#include "device/cuda/driver.h"
#include "runtime/device/cuda/region.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

/// Straight to the device's kernel, which sets the current device for its length.
at::Tensor allocate(c10::Device place, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) {
  return at::_ops::empty_strided::redispatch(c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                             c10::fromIntArrayRefSlow(sizes), c10::fromIntArrayRefSlow(strides),
                                             dtype, c10::kStrided, place,
                                             /*pin_memory=*/false);
}

/// PyTorch's stable interface for compiled code, for versions whose streams do not tell their handle.
void* stream_by_shim(c10::Device place) {
  using Shim = int32_t (*)(int32_t device_index, void** stream);
  static const auto shim = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
    return library ? reinterpret_cast<Shim>(dlsym(library, "aoti_torch_get_current_cuda_stream")) : nullptr;
  }();
  void* stream = nullptr;
  BRAZE_CHECK(shim && shim(place.index(), &stream) == 0, "PyTorch does not tell the current CUDA stream");
  return stream;
}

template <typename Guard>
void* stream_of(const Guard& guard, c10::Device place) {
  if constexpr (requires { guard.getStreamNativeHandle(guard.getStream(place)); })
    return guard.getStreamNativeHandle(guard.getStream(place));
  else
    return stream_by_shim(place);
}

}  // namespace

void* current_stream(c10::Device place) {
  return stream_of(c10::impl::VirtualGuardImpl(c10::kCUDA), place);
}

bool is_recording(void* stream) {
  constexpr int kNone = 0;
  int status = kNone;
  const auto result =
      device::cuda::driver().cuStreamIsCapturing(static_cast<device::cuda::Stream>(stream), &status);
  return result != 0 || status != kNone;
}

bool CudaDevice::is_supported(c10::Device, std::string* why_not) {
  if (!device::cuda::available(why_not)) return false;
  codegen::prepare(Target::hopper());
  return true;
}

std::unique_ptr<Region> CudaDevice::make_region() {
  return std::make_unique<CudaRegion>(place_, status_.address());
}

at::Tensor CudaDevice::allocate_result(const Geometry& geometry, bool zeroed) const {
  BRAZE_CHECK(!zeroed, "plans have zeroed results on a CPU alone");
  return runtime::allocate(place_, geometry.sizes, geometry.strides, geometry.dtype);
}

at::Tensor CudaDevice::allocate(c10::Device place, int64_t bytes) {
  return runtime::allocate(place, {bytes}, {1}, c10::kByte);
}

at::Tensor CudaDevice::allocate_temporaries(int64_t bytes) const {
  return allocate(place_, bytes);
}

}  // namespace braze::runtime
