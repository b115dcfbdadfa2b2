#include "runtime/device/cuda/region.h"

#include <c10/core/DeviceGuard.h>

#include <functional>

#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/scratch.h"
#include "runtime/device/cuda/stopwatch.h"
#include "support/error.h"

namespace braze::runtime {

void CudaRegion::add(const codegen::CompiledKernel& kernel, uint32_t first_pointer,
                     const std::vector<uint64_t>& scalars, const LaunchSizes& sizes) {
  const Code* const code = keep({kernel.shared_from_this(), sizes.symbols});
  launches_.emplace_back(code, first_pointer, static_cast<uint32_t>(scalars_.size()));
  scalars_.insert(scalars_.end(), scalars.begin(), scalars.end());
}

const CudaRegion::Code* CudaRegion::keep(KernelForm form) {
  const c10::DeviceGuard guard(place_);
  auto module = device::cuda::load(*form.code, place_.index());
  const std::lock_guard lock(mutex_);
  return &codes_.emplace_back(std::move(module), std::move(form.symbols));
}

void CudaRegion::launch(const Launch& one, const Code& code, void* const* pointers, int64_t* status,
                        void* stream) const {
  device::cuda::launch(*code.module, pointers, scalars_.data() + one.first_scalar, code.symbols.data(), status,
                       stream);
}

void CudaRegion::run(void* const* pointers, int64_t*) const {
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  for (const Launch& one : launches_)
    launch(one, *one.code.load(std::memory_order_acquire), pointers + one.first_pointer, status_, stream);
}

void CudaRegion::run_watched(void* const* pointers, int64_t*, LaunchWatch& watch) const {
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  for (size_t k = 0; k < launches_.size(); ++k) {
    watch.begin(k);
    const Launch& one = launches_[k];
    launch(one, *one.code.load(std::memory_order_acquire), pointers + one.first_pointer, status_, stream);
    watch.end(k);
  }
}

std::vector<int64_t> CudaRegion::measure(size_t kernel, std::span<const KernelForm> forms,
                                         std::span<const WrittenMemory> written, void* const* pointers) const {
  const c10::DeviceGuard guard(place_);
  void* const stream = current_stream(place_);
  const Launch& one = launches_[kernel];
  const Scratch scratch(place_, stream, written);
  std::vector<void*> mine;
  for (size_t k = 0; k < forms[0].code->alignments().size(); ++k)
    mine.push_back(scratch.in_place_of(pointers[one.first_pointer + k]));
  std::vector<Code> codes;
  std::vector<std::function<void()>> launches;
  codes.reserve(forms.size());
  for (const KernelForm& form : forms) {
    const Code& code = codes.emplace_back(device::cuda::load(*form.code, place_.index()), form.symbols);
    // What a check finds was told by the run that counts.
    launches.emplace_back([&] { launch(one, code, mine.data(), nullptr, stream); });
  }
  return time_with_cold_caches(place_, stream, launches);
}

void CudaRegion::replace(size_t kernel, KernelForm form) {
  launches_[kernel].code.store(keep(std::move(form)), std::memory_order_release);
}

}  // namespace braze::runtime
