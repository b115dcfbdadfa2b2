#include "runtime/autograd/batched.h"

// clang-format off
#include <ATen/functorch/BatchedTensorImpl.h>  // First: its inline functions would find those of the other one.
#include <ATen/LegacyBatchedTensorImpl.h>
// clang-format on
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "support/error.h"

namespace braze::runtime {

namespace {

struct Batch {
  at::Tensor value;
  int64_t dim, level;
  bool is_legacy;  ///< Of torch._vmap_internals, which is_grads_batched uses.

  bool is_inside(const Batch& other) const {
    return is_legacy == other.is_legacy ? level > other.level : other.is_legacy;
  }
  bool is_with(const Batch& other) const { return is_legacy == other.is_legacy && level == other.level; }
};

std::optional<Batch> batch_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::nullopt;
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor))
    return Batch{batched->value(), batched->bdim(), batched->level(), false};
  const auto* batched = at::maybeGetBatchedImpl(tensor);
  if (!batched) return std::nullopt;
  if (batched->bdims().size() != 1)
    throw UserError("braze: the backward of a compiled function is run under several torch._vmap_internals._vmap");
  return Batch{batched->value(), batched->bdims()[0].dim(), batched->bdims()[0].level(), true};
}

at::Tensor wrapped(const std::vector<at::Tensor>& rows, const Batch& like) {
  at::Tensor all = at::stack(rows);
  if (!like.is_legacy) return at::functorch::makeBatched(std::move(all), 0, like.level);
  return at::makeBatched(std::move(all), {at::BatchDim(like.level, 0)});
}

}  // namespace

bool is_batched(const at::Tensor& tensor) {
  return batch_of(tensor).has_value();
}

std::vector<at::Tensor> run_along_batch(
    const std::vector<at::Tensor>& tensors,
    const std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>& run) {
  std::optional<Batch> innermost;
  for (const at::Tensor& tensor : tensors)
    if (const std::optional<Batch> one = batch_of(tensor); one && (!innermost || one->is_inside(*innermost)))
      innermost = one;
  BRAZE_CHECK(innermost, "no tensor is batched");
  std::vector<std::vector<at::Tensor>> columns;
  for (int64_t row = 0; row < innermost->value.size(innermost->dim); ++row) {
    std::vector<at::Tensor> given = tensors;
    for (at::Tensor& tensor : given)
      if (const std::optional<Batch> one = batch_of(tensor); one && one->is_with(*innermost))
        tensor = one->value.select(one->dim, row);
    std::vector<at::Tensor> found = run(std::move(given));
    columns.resize(found.size());
    for (size_t k = 0; k < found.size(); ++k) columns[k].push_back(std::move(found[k]));
  }
  std::vector<at::Tensor> results;
  for (const std::vector<at::Tensor>& column : columns)
    results.push_back(column[0].defined() ? wrapped(column, *innermost) : at::Tensor());
  return results;
}

}  // namespace braze::runtime
