#include "device/cuda/module.h"

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/driver.h"
#include "support/error.h"

namespace braze::device::cuda {

namespace {

// CUDA Driver API, cuda.h.
constexpr int kMaxDynamicSharedBytes = 8;        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kClusterDimension = 4;             // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
constexpr uint32_t kSharedByDefault = 48 << 10;  // more must be asked for

}  // namespace

class Module {
 public:
  Module(std::shared_ptr<const codegen::CompiledKernel> kernel, int device)
      : kernel_(std::move(kernel)), device_(device) {
    ensure_context(device);
    const Driver& calls = driver();
    check(calls.cuModuleLoadDataEx(&module_, kernel_->device_code().data(), 0, nullptr, nullptr),
          "loading a kernel");
    try {
      for (const codegen::GpuPhase& phase : kernel_->gpu_phases()) {
        Function function = nullptr;
        check(calls.cuModuleGetFunction(&function, module_, phase.entry.c_str()), "finding a kernel");
        if (phase.shared_bytes > kSharedByDefault)
          check(calls.cuFuncSetAttribute(function, kMaxDynamicSharedBytes, static_cast<int>(phase.shared_bytes)),
                "asking for shared memory");
        functions_.push_back(function);
      }
    } catch (...) {
      calls.cuModuleUnload(module_);
      throw;
    }
  }
  // At the end of a process the driver may be gone already: its answer does not matter.
  ~Module() { driver().cuModuleUnload(module_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const codegen::CompiledKernel& kernel() const { return *kernel_; }
  int device() const { return device_; }
  Function function(size_t phase) const { return functions_[phase]; }
  /// The same kernel for addresses that are aligned no better than it says.
  const Module& unaligned() const {
    std::call_once(unaligned_once_, [&] {
      const auto kernel = kernel_->unaligned();
      BRAZE_CHECK(kernel, "a kernel for unaligned memory relies on alignment");
      unaligned_ = load(*kernel, device_);
    });
    return *unaligned_;
  }

 private:
  std::shared_ptr<const codegen::CompiledKernel> kernel_;
  int device_;
  ModuleHandle module_ = nullptr;
  std::vector<Function> functions_;  ///< By phase.
  mutable std::once_flag unaligned_once_;
  mutable std::shared_ptr<const Module> unaligned_;
};

std::shared_ptr<const Module> load(const codegen::CompiledKernel& kernel, int device) {
  BRAZE_CHECK(!kernel.gpu_phases().empty(), "a kernel for a GPU has phases");
  // Modules that somebody holds, by kernel (which the module keeps) and device.
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::pair<const codegen::CompiledKernel*, int>, std::weak_ptr<const Module>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Module>& kept = loaded[{&kernel, device}];
  std::shared_ptr<const Module> module = kept.lock();
  if (!module) {
    module = std::make_shared<const Module>(kernel.shared_from_this(), device);
    kept = module;
    std::erase_if(loaded, [](const auto& entry) { return entry.second.expired(); });
  }
  return module;
}

namespace {

bool is_aligned(const codegen::CompiledKernel& kernel, void* const* buffers) {
  const std::vector<uint32_t>& alignments = kernel.alignments();
  uintptr_t wrong = 0;
  for (size_t k = 0; k < alignments.size(); ++k)
    wrong |= reinterpret_cast<uintptr_t>(buffers[k]) & (alignments[k] - 1);
  return wrong == 0;
}

}  // namespace

void launch(const Module& aligned, void* const* buffers, const uint64_t* scalars, const int64_t* symbols,
            int64_t* status, void* stream) {
  const Module& module = is_aligned(aligned.kernel(), buffers) ? aligned : aligned.unaligned();
  const codegen::CompiledKernel& kernel = module.kernel();
  const Driver& calls = driver();
  ensure_context(module.device());
  // The driver wants the address of each parameter.
  constexpr size_t most = 512;  // 4 KB of parameters, which all versions of CUDA take
  std::array<void*, most> parameters;
  size_t count = 0;
  const auto add = [&](const void* parameter) {
    BRAZE_CHECK(count < most, "a kernel for a GPU has at most ", most, " parameters");
    parameters[count++] = const_cast<void*>(parameter);
  };
  for (size_t k = 0; k < kernel.alignments().size(); ++k) add(&buffers[k]);
  for (size_t k = 0; k < kernel.scalar_count(); ++k) add(&scalars[k]);
  for (size_t k = 0; k < kernel.symbol_count(); ++k) add(&symbols[k]);
  add(&status);
  for (size_t k = 0; k < kernel.gpu_phases().size(); ++k) {
    const codegen::GpuPhase& phase = kernel.gpu_phases()[k];
    const int64_t blocks = phase.blocks.constant +
                           (phase.blocks.is_constant() ? 0 : phase.blocks.factor * symbols[phase.blocks.symbol]);
    if (blocks <= 0) continue;
    constexpr int64_t most_blocks = INT32_MAX;
    BRAZE_CHECK(blocks <= most_blocks, "a grid of ", blocks, " blocks");
    if (phase.cluster == 1) {
      check(calls.cuLaunchKernel(module.function(k), static_cast<unsigned>(blocks), 1, 1, phase.threads, 1, 1,
                                 phase.shared_bytes, static_cast<Stream>(stream), parameters.data(), nullptr),
            "starting a kernel");
      continue;
    }
    LaunchAttribute cluster{kClusterDimension, 0, {phase.cluster, 1, 1}};
    const LaunchConfig config{{static_cast<unsigned>(blocks), 1, 1},
                              {phase.threads, 1, 1},
                              phase.shared_bytes,
                              static_cast<Stream>(stream),
                              &cluster,
                              1};
    check(calls.cuLaunchKernelEx(&config, module.function(k), parameters.data(), nullptr), "starting a kernel");
  }
}

}  // namespace braze::device::cuda
