// runtime/kernel_tuning.h: which form of each kernel on a GPU is fastest there, by measurement
// (mode="max-autotune").
//
// The first call of a program runs each kernel as it came and then measures its forms (compile/kernel_variants.h)
// on the same memory, with cold caches; the fastest stays. Forms may add up in another order, so that results
// differ in the last bits from those of the first call. What came out is known to the process, and on disk, by
// operators, types, sizes to within an eighth, and device: a program that meets it again measures nothing.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/kernel_variants.h"
#include "runtime/device/device.h"
#include "runtime/program.h"
#include "support/progress.h"

namespace braze::runtime {

class KernelTuning {
 public:
  /// For a program of `artifact`, which gets the forms that are known to be fastest. Null where no kernel has
  /// several forms.
  static std::unique_ptr<KernelTuning> of(driver::Artifact& artifact, const codegen::CompileOptions& code);

  /// Kernels are left to be measured, no other call is at it, and none is being recorded. Makes the code of their
  /// forms. end() is then to be called.
  bool begins();
  void end();
  /// After a kernel has run for the call that begins() was true for. What goes wrong is told in facts().
  /// \param kernel     of `region`.
  /// \param addresses  of the plan's buffers.
  /// \param pointers   as the region was given.
  void measure(size_t step, Region& region, size_t kernel, std::span<void* const> addresses, void* const* pointers);

  /// The artifact with what was chosen, once all is measured; lives as long as this. Null before.
  const driver::Artifact* tuned() const { return tuned_.load(std::memory_order_acquire); }
  std::vector<KernelTuningFacts> facts() const;

 private:
  struct Step {
    Hash128 key;
    std::vector<driver::KernelVariant> forms;  ///< Its own first.
    bool is_pending = false;
    c10::Device place = c10::kCPU;
    size_t facts = 0;  ///< Place in facts_.
  };
  KernelTuning(const driver::Artifact& artifact, const codegen::CompileOptions& code)
      : artifact_(artifact), code_(code) {}
  /// Makes the code of all that is to be measured, side by side.
  void prepare();
  /// Calls `change` with the facts of a step.
  template <typename Change>
  void tell(size_t step, Change&& change);
  void finish();

  const driver::Artifact& artifact_;
  const codegen::CompileOptions code_;
  std::vector<Step> steps_;  ///< By step of the plan.
  std::atomic<bool> is_pending_ = false, is_busy_ = false;
  std::vector<std::pair<size_t, driver::KernelVariant>> chosen_;  ///< Of whoever is at it, like the next.
  std::optional<Progress> progress_;
  std::unique_ptr<const driver::Artifact> made_;
  std::atomic<const driver::Artifact*> tuned_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<KernelTuningFacts> facts_;  ///< Protected by mutex_.
};

}  // namespace braze::runtime
