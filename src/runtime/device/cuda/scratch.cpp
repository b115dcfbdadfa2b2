#include "runtime/device/cuda/scratch.h"

#include <algorithm>
#include <cstdint>

#include "device/cuda/driver.h"
#include "runtime/device/cuda/device.h"

namespace braze::runtime {

Scratch::Scratch(c10::Device place, void* stream, std::span<const WrittenMemory> originals) {
  std::vector<WrittenMemory> sorted(originals.begin(), originals.end());
  std::ranges::sort(sorted, {}, &WrittenMemory::begin);
  for (const WrittenMemory& one : sorted) {
    if (one.bytes == 0) continue;
    char* const end = one.begin + one.bytes;
    if (!copies_.empty() && one.begin < copies_.back().begin + copies_.back().bytes)
      copies_.back().bytes = std::max(copies_.back().bytes, end - copies_.back().begin);
    else
      copies_.push_back({one.begin, one.bytes, nullptr, {}});
  }
  constexpr uintptr_t aligned = 512;  // as the caching allocator's memory; code for less is other code
  for (Copy& each : copies_) {
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(each.begin) % aligned);
    each.memory = CudaDevice::allocate(place, each.bytes + past);
    each.copy = static_cast<char*>(each.memory.mutable_data_ptr()) + past;
    namespace cuda = device::cuda;
    cuda::check(cuda::driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<cuda::Address>(each.copy),
                                                    reinterpret_cast<cuda::Address>(each.begin), each.bytes,
                                                    static_cast<cuda::Stream>(stream)),
                "copying what a kernel writes");
  }
}

void* Scratch::in_place_of(void* address) const {
  char* const place = static_cast<char*>(address);
  for (const Copy& each : copies_)
    if (place >= each.begin && place < each.begin + each.bytes) return each.copy + (place - each.begin);
  return address;
}

}  // namespace braze::runtime
