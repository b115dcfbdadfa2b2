// tests/cpp/gpu_device.h: memory and launches on the GPU of this machine, through the driver alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "device/cuda/driver.h"
#include "device/cuda/module.h"
#include "plan_interpreter.h"

namespace braze::test {

/// Device memory, freed with it.
class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t bytes) : bytes_(bytes) {
    device::cuda::ensure_context(0);
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    device::cuda::check(device::cuda::driver().cuMemAlloc_v2(&address_, size), "allocating");
  }
  DeviceMemory(DeviceMemory&& other) noexcept : address_(other.address_), bytes_(other.bytes_) {
    other.address_ = 0;
  }
  ~DeviceMemory() {
    if (address_) device::cuda::driver().cuMemFree_v2(address_);
  }
  void* data() const { return reinterpret_cast<void*>(address_); }
  device::cuda::Address address() const { return address_; }
  void upload(const void* from, int64_t bytes) const {
    if (bytes > 0)
      device::cuda::check(device::cuda::driver().cuMemcpyHtoD_v2(address_, from, static_cast<size_t>(bytes)),
                          "copying");
  }
  void download(void* to, int64_t bytes) const {
    if (bytes > 0)
      device::cuda::check(device::cuda::driver().cuMemcpyDtoH_v2(to, address_, static_cast<size_t>(bytes)),
                          "copying");
  }

 private:
  device::cuda::Address address_ = 0;
  int64_t bytes_;
};

/// Runs a kernel over host memory, by copies there and back. Parameters begin `misaligned` elements further on than
/// memory that is aligned, where the kernel's text allows that.
inline int64_t launch_with_copies(const loops::Kernel& kernel, const codegen::CompiledKernel& code,
                                  std::span<const Memory> memory, const uint64_t* scalars,
                                  const int64_t* symbols = nullptr, int64_t misaligned = 0) {
  std::vector<DeviceMemory> pieces;
  std::vector<void*> buffers;
  const auto shift_of = [&](size_t k) {
    const int64_t shift = misaligned * ir::byte_size(kernel.buffers[k].dtype);
    return shift % kernel.buffers[k].alignment == 0 ? shift : 0;
  };
  DeviceMemory status(8);
  int64_t found = 0;
  status.upload(&found, 8);
  // All of a parameter's memory, `shift` bytes into a piece of the device's.
  const auto whole = [&](size_t k) {
    return std::pair(memory[k].data - memory[k].before, memory[k].before + memory[k].bytes);
  };
  for (size_t k = 0; k < memory.size(); ++k) {
    const int64_t shift = shift_of(k);
    const auto [from, bytes] = whole(k);
    DeviceMemory& piece = pieces.emplace_back(bytes + shift);
    std::vector<char> shifted(static_cast<size_t>(bytes + shift));
    std::copy_n(from, bytes, shifted.begin() + shift);
    piece.upload(shifted.data(), bytes + shift);
    buffers.push_back(static_cast<char*>(piece.data()) + shift + memory[k].before);
  }
  const auto module = device::cuda::load(code, 0);
  device::cuda::launch(*module, buffers.data(), scalars, symbols, static_cast<int64_t*>(status.data()), nullptr);
  device::cuda::check(device::cuda::driver().cuStreamSynchronize(nullptr), "running a kernel");
  for (size_t k = 0; k < memory.size(); ++k) {
    if (kernel.buffers[k].access == loops::Access::in) continue;
    const int64_t shift = shift_of(k);
    const auto [to, bytes] = whole(k);
    std::vector<char> shifted(static_cast<size_t>(bytes + shift));
    pieces[k].download(shifted.data(), bytes + shift);
    std::copy_n(shifted.begin() + shift, bytes, to);
  }
  status.download(&found, 8);
  return found;
}

}  // namespace braze::test

/// Ends a test case where there is no GPU.
#define NEEDS_GPU()                                      \
  if (std::string why; !device::cuda::available(&why)) { \
    MESSAGE("skipped: ", why);                           \
    return;                                              \
  }
