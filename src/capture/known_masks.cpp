#include "capture/known_masks.h"

#include "capture/arguments.h"
#include "capture/recorder.h"
#include "capture/shapes.h"
#include "capture/tracer_tensor.h"
#include "passes/bounds.h"
#include "passes/causal_masks.h"

namespace braze::capture {
namespace {

/// [..., L, S] from the back: each size of the mask is 1 or theirs. What else there is, eager may refuse.
bool fits(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  const DimsRef sizes = dims_of(mask), rows = dims_of(query), columns = dims_of(key);
  if (rows.size() < 2 || columns.size() < 2 || sizes.size() < 2 || sizes.size() > rows.size()) return false;
  for (size_t back = 1; back <= sizes.size(); ++back) {
    const Dim size = sizes[sizes.size() - back];
    const Dim wanted = back == 1 ? columns[columns.size() - 2] : rows[rows.size() - back];
    if (size != 1 && size != wanted) return false;
  }
  return true;
}

/// Kernels differ in which rows see what of longer keys.
bool is_square(const at::Tensor& mask) {
  const DimsRef sizes = dims_of(mask);
  return sizes[sizes.size() - 1] == sizes[sizes.size() - 2] && sizes[sizes.size() - 1] != 1;
}

}  // namespace

void leave_out_known_mask(Recorder& recorder, const c10::OperatorHandle& op, std::span<c10::IValue> arguments,
                          bool has_asked) {
  // (query, key, value, attn_mask, dropout_p, is_causal, ...)
  if (op.schema().name() != "aten::scaled_dot_product_attention" || !arguments[3].isTensor()) return;
  if (!arguments[0].isTensor() || !arguments[1].isTensor() || !arguments[5].isBool() || arguments[5].toBool())
    return;
  const at::Tensor& mask = arguments[3].toTensor();
  const bool draws = !arguments[4].isDouble() || arguments[4].toDouble() != 0;
  if (draws && !has_asked && !mask.is_cpu()) return;
  if (!as_tracer(mask) || mask.requires_grad()) return;
  const bool is_truth = mask.scalar_type() == at::kBool;
  if (!is_truth && mask.scalar_type() != arguments[0].toTensor().scalar_type()) return;
  if (!fits(mask, arguments[0].toTensor(), arguments[1].toTensor())) return;
  const ir::Value* value = recorder.value_of(mask);
  if (passes::is_throughout(value, is_truth ? 1 : 0)) {
    arguments[3] = c10::IValue();
  } else if (is_truth && is_square(mask) && passes::is_causal(value)) {
    arguments[3] = c10::IValue();
    arguments[5] = true;
  }
}

}  // namespace braze::capture
