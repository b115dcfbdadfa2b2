// runtime/device/cuda/product.h: which of cuBLASLt's algorithms, or ATen, multiplies two matrices fastest on a GPU,
// by measurement (mode="max-autotune").
//
// The first call that nobody records measures ATen and what the library proposes (device/cuda/cublas_lt.h), on the
// operands and with cold caches; the fastest stays, if it wins by more than noise. It is known to the process, and
// on disk, for sizes within an eighth, types, layouts, device and version of the library; an algorithm that was
// measured at other sizes is asked whether it takes these. Under torch.use_deterministic_algorithms, and where the
// precision that PyTorch's switches ask for is no longer that of the plan, it is always ATen.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "device/cuda/cublas_lt.h"
#include "loops/plan.h"
#include "runtime/geometry.h"
#include "runtime/matmul.h"
#include "runtime/program.h"

namespace braze::runtime {

class GpuProduct {
 public:
  /// Null if only ATen can compute it.
  static std::unique_ptr<GpuProduct> plan(const loops::CallStep& step, const Geometry& out, bool use_disk_cache);
  /// Thread-safe. What the operands look like is what plan() was told.
  void run(const MatmulOperands& operands) const;
  KernelTuningFacts facts() const;

 private:
  using Algorithm = device::cuda::ProductAlgorithm;
  struct Choice {
    std::optional<Algorithm> algorithm;  ///< None: ATen.
  };
  GpuProduct(const device::cuda::ProductShape& shape, c10::Device place, std::string name, bool use_disk_cache);

  bool serves(const MatmulOperands& operands) const;
  /// The library knows the product from the first call on: only then is it loaded.
  const device::cuda::LtProduct* description() const;
  /// Decides, by what is known or by measuring; not while somebody records.
  void decide(const MatmulOperands& operands, void* stream) const;
  void measure(const MatmulOperands& operands, void* stream, const Hash128& key, Choice& choice) const;
  void compute(const Algorithm& algorithm, const MatmulOperands& operands, void* stream) const;
  Hash128 key() const;

  const device::cuda::ProductShape shape_;
  const c10::Device place_;
  const bool use_disk_cache_;
  mutable std::atomic<const Choice*> choice_ = nullptr;
  mutable std::mutex deciding_;  ///< Protects what follows; never waited for by calls.
  mutable std::unique_ptr<device::cuda::LtProduct> described_;
  mutable Choice made_;
  mutable KernelTuningFacts facts_;
};

}  // namespace braze::runtime
