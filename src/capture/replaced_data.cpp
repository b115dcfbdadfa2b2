#include "capture/replaced_data.h"

#include <algorithm>

#include "capture/arguments.h"
#include "capture/recorder.h"
#include "capture/version_counters.h"
#include "support/error.h"

namespace braze::capture {

namespace {

bool is_one_view(const View& a, const View& b) {
  return a.memory == b.memory && a.type == b.type && a.dtype == b.dtype && a.offset == b.offset &&
         a.origin == b.origin && a.is_conj == b.is_conj && a.is_neg == b.is_neg;
}

}  // namespace

/// Autograd saves such tensors themselves, and a backward reads what they have been given by then: where what is
/// computed next may be differentiated, a program that takes the tensor as an argument does the same, and one that
/// has made its memory does not.
ReplacedData::Outcome ReplacedData::replace(Recorder& recorder, const at::Tensor& real, const at::Tensor& data) {
  const at::Tensor tracer = recorder.stand_in(real);
  const ViewPtr mine = recorder.view_of(tracer), other = recorder.view_of(data);
  if (is_one_view(*mine, *other)) return Outcome::same;
  const bool is_alike = mine->type == other->type && mine->dtype == other->dtype &&
                        storage_offset(*mine) == storage_offset(*other) && !mine->is_conj && !mine->is_neg &&
                        !other->is_conj && !other->is_neg;
  if (!is_alike || real.is_inference() || data.is_inference() || real.is_view() || tracer.is_view())
    return Outcome::refused;
  if (wants_gradients_ && (real.requires_grad() || tracer.requires_grad() || at::GradMode::is_enabled()))
    return Outcome::refused;
  if (contains(real)) {
    as_tracer(tracer)->rebind(other);
    return Outcome::other;
  }
  if (!share_version(tracer, real) && tracer._version() != 0) return Outcome::refused;
  as_tracer(tracer)->rebind(other);
  replaced_.emplace_back(real.unsafeGetTensorImpl(), tracer.unsafeGetTensorImpl());
  return Outcome::other;
}

bool ReplacedData::contains(const at::Tensor& tensor) const {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return std::ranges::any_of(replaced_, [&](const auto& one) { return one.first == impl || one.second == impl; });
}

/// A write into the tensor itself counts as a version of it, which programs move for the memory that they bind.
void ReplacedData::check(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) const {
  bool is_tracked = false, is_read = false, is_written = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    for_each_tensor(arguments.subspan(i, 1), [&](const at::Tensor& tensor, uint32_t, int32_t) {
      if (!tensor.defined()) return;
      is_tracked |= tensor.requires_grad();
      const bool found = contains(tensor) || (tensor.is_view() && contains(at::Tensor(tensor._base())));
      is_read |= found;
      is_written |= found && alias && alias->isWrite();
    });
  }
  if (is_written) throw UserError("braze: a tensor is written in place after its `data` was replaced");
  if (is_read && is_tracked && at::GradMode::is_enabled())
    throw UserError("braze: the `data` of a tensor was replaced, and gradients are wanted of what is made of it");
}

}  // namespace braze::capture
