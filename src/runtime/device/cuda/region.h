// runtime/device/cuda/region.h: kernels on the current stream, which runs them in order: barriers are free.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

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
  std::vector<int64_t> measure(size_t kernel, std::span<const KernelForm> forms,
                               std::span<const WrittenMemory> written, void* const* pointers) const override;
  void replace(size_t kernel, KernelForm form) override;

 private:
  struct Code {
    std::shared_ptr<const device::cuda::Module> module;
    std::vector<int64_t> symbols;
  };
  struct Launch {
    Launch(const Code* code, uint32_t pointer, uint32_t scalar)
        : code(code), first_pointer(pointer), first_scalar(scalar) {}
    std::atomic<const Code*> code;
    uint32_t first_pointer, first_scalar;
  };
  void launch(const Launch& one, const Code& code, void* const* pointers, int64_t* status, void* stream) const;
  /// Kept as long as the region: a call may be about to start it.
  const Code* keep(KernelForm form);

  const c10::Device place_;
  int64_t* const status_;
  std::mutex mutex_;  ///< Protects codes_ once calls have begun.
  std::deque<Code> codes_;
  std::deque<Launch> launches_;
  std::vector<uint64_t> scalars_;
};

}  // namespace braze::runtime
