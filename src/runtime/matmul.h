// runtime/matmul.h: one matrix product of a program, by the library that is fastest for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <memory>

#include "loops/plan.h"
#include "runtime/geometry.h"
#include "runtime/matmul_choice.h"
#include "runtime/packed_weights.h"
#include "runtime/panel_matmul.h"
#include "runtime/small_matmul.h"

namespace braze::runtime {

/// out = beta * bias + alpha * a x b, of matrices or of batches of them. `bias` is null for mm and bmm.
struct MatmulOperands {
  const at::Tensor &out, &a, &b;
  const at::Tensor* bias;
  const at::Scalar &beta, &alpha;
  const at::Tensor* weight = nullptr;  ///< The tensor that `b` is or lies in, if a copy may be kept of it.
};

/// What eager would call; past the dispatcher (150 ns) where it would choose the same.
void matmul_by_aten(const MatmulOperands& operands);

/// How the way of a product is chosen.
struct MatmulOptions {
  /// The ways are tried on the operands of the first calls, and from then on the fastest is taken
  /// (runtime/choice.h). Else it is the one expected to be (MatmulShape::expected), on every call, so that one
  /// input always gives the same bits.
  bool measure = false;
  bool use_disk_cache = true;        ///< For what was measured.
  const Geometry* weight = nullptr;  ///< Of the tensor that `b` lies in, if copies of it may be kept.
};

/// A product of float32 matrices on the CPU, by one of several libraries. All accumulate in float32, unless
/// PyTorch's own switches (torch.backends.mkldnn.matmul.fp32_precision) allow less; then eager does so too. Under
/// torch.use_deterministic_algorithms, or with oneDNN switched off, it is always ATen.
class Matmul {
 public:
  /// Null if only ATen can compute it.
  static std::unique_ptr<Matmul> plan(const loops::CallStep& step, const Geometry& out,
                                      const MatmulOptions& options);
  /// Thread-safe. What the operands look like is what plan() was told.
  void run(const MatmulOperands& operands) const;
  int64_t packed_bytes() const { return packed_ ? packed_->bytes() : 0; }

 private:
  /// The measurement among some methods; kept for the number of threads that was last seen.
  Choice& choice(bool with_packed) const;
  void measure(const MatmulOperands& operands, bool with_packed) const;
  /// The right operand in panels; undefined where there is none yet.
  at::Tensor packed_weight(const MatmulOperands& operands) const;
  void compute(MatmulMethod method, const MatmulOperands& operands) const;
  void by_rows(const MatmulOperands& operands) const;
  void by_panels(const MatmulOperands& operands, const at::Tensor& packed) const;

  MatmulShape shape_;
  SmallMatmul rows_;                   ///< For `rows`, without addresses.
  int64_t a_batch_ = 0, b_batch_ = 0;  ///< Elements between matrices of a batch.
  PanelMatmul panels_;                 ///< For `panels` and `packed`, likewise.
  MatmulMethods methods_;              ///< `packed` aside.
  MatmulMethod expected_ = MatmulMethod::aten;
  bool measures_ = false, use_disk_cache_ = true;
  std::unique_ptr<PackedWeight> packed_;                           ///< Null: no copies are kept.
  mutable std::array<std::atomic<ThreadedChoice*>, 2> choices_{};  ///< Without `packed` and with it.
};

}  // namespace braze::runtime
