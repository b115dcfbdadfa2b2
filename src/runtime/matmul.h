// runtime/matmul.h: one matrix product of a program, by whichever library is fastest on this machine.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>

#include "loops/plan.h"
#include "runtime/geometry.h"
#include "runtime/matmul_choice.h"
#include "runtime/small_matmul.h"

namespace braze::runtime {

/// out = beta * bias + alpha * a x b, of matrices or of batches of them. `bias` is null for mm and bmm.
struct MatmulOperands {
  const at::Tensor &out, &a, &b;
  const at::Tensor* bias;
  const at::Scalar &beta, &alpha;
};

/// What eager would call; past the dispatcher (150 ns) where it would choose the same.
void matmul_by_aten(const MatmulOperands& operands);

/// A product of float32 matrices on the CPU. Its first call goes to ATen, the next ones take part in the
/// measurement of their size, and from then on the fastest way is taken (MatmulChoice). All ways accumulate in
/// float32, unless PyTorch's own switches (torch.backends.mkldnn.matmul.fp32_precision) allow less; then eager does
/// so too. Under torch.use_deterministic_algorithms, or with oneDNN switched off, it is always ATen.
class Matmul {
 public:
  /// Null if only ATen can compute it.
  static std::unique_ptr<Matmul> plan(const loops::CallStep& step, const Geometry& out, bool use_disk_cache);
  /// Thread-safe. What the operands look like is what plan() was told.
  void run(const MatmulOperands& operands) const;

 private:
  void compute(MatmulMethod method, const MatmulOperands& operands) const;
  void by_rows(const MatmulOperands& operands) const;

  MatmulShape shape_;
  SmallMatmul rows_;                   ///< For `rows`, without addresses.
  int64_t a_batch_ = 0, b_batch_ = 0;  ///< Elements between matrices of a batch.
  MatmulMethods methods_;
  bool use_disk_cache_ = true;
  mutable std::atomic<bool> called_{false};
  mutable std::atomic<MatmulChoice*> choice_{nullptr};  ///< For the number of threads that was last seen.
};

}  // namespace braze::runtime
