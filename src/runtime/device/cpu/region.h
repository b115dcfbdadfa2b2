// runtime/device/cpu/region.h: kernels that run in one parallel region (loops/regions.h).
//
// A region is a list of stages with a barrier between each two; a stage is the phases of kernels that may run at
// the same time. At a call a stage is cut into as many parts as it is worth threads. Any thread may take any part,
// its own first, because that is where the cache holds what it wrote in the stage before. So no number of threads
// is needed for a region to end: where the machine is shared and a thread comes late, the others do its parts.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/compiler.h"
#include "runtime/device/device.h"

namespace braze::runtime {

class CpuRegion final : public Region {
 public:
  void add_barrier() override;
  /// Every phase but the first of a kernel starts a stage.
  void add(const codegen::CompiledKernel& kernel, uint32_t first_pointer, const std::vector<uint64_t>& scalars,
           const LaunchSizes& sizes) override;

  /// On at::get_num_threads() threads at most.
  void run(void* const* pointers, int64_t* status) const override;
  void run_watched(void* const* pointers, int64_t* status, LaunchWatch& watch) const override;
  /// Kernels of a CPU have one form.
  std::vector<int64_t> measure(size_t kernel, std::span<const KernelForm> forms,
                               std::span<const WrittenMemory> written, void* const* pointers) const override;
  void replace(size_t kernel, KernelForm form) override;

 private:
  /// One phase of a kernel. `begin` and `work` are its place in the work of its stage.
  struct Task {
    codegen::PhaseFunction function;
    uint32_t first_pointer, first_scalar, first_symbol;
    int64_t iterations, grain;
    bool divisible;
    int64_t begin, work;
  };
  struct Stage {
    uint32_t first, last;  ///< Into tasks_.
    int64_t work = 0;
  };
  struct Pass;

  void run_task(const Task& task, const Pass& pass, int64_t begin, int64_t end) const;
  void run_part(const Stage& stage, const Pass& pass, int64_t part, int64_t parts) const;
  void run_here(size_t first, size_t last, const Pass& pass) const;
  void take_part(Pass& pass, int64_t worker) const;

  std::vector<Task> tasks_;
  std::vector<uint32_t> ends_;  ///< Of the tasks of each kernel.
  std::vector<Stage> stages_;
  std::vector<uint64_t> scalars_;
  std::vector<int64_t> symbols_;
  int64_t most_work_ = 0;  ///< Of a stage.
};

}  // namespace braze::runtime
