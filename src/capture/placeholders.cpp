#include "capture/placeholders.h"

#include <cmath>

#include "capture/number.h"
#include "capture/plain_number.h"
#include "capture/recorder.h"
#include "capture/size_node.h"
#include "capture/trace.h"
#include "capture/traceable.h"
#include "capture/tracer_tensor.h"

namespace braze::capture {

namespace {

PlaceholderHook placeholder_hook = nullptr;  // Set once, when the module is loaded.

/// The values that the parser takes.
bool looks_like_one(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_wrapped_number() || !tensor.is_cpu()) return false;
  if (is_tracer(tensor) || is_transformed(tensor) || !tensor.has_storage()) return false;
  if (tensor.scalar_type() == at::kDouble) return std::isnan(*tensor.const_data_ptr<double>());
  return tensor.scalar_type() == at::kLong && *tensor.const_data_ptr<int64_t>() == 7777777;
}

}  // namespace

void set_placeholder_hook(PlaceholderHook hook) {
  placeholder_hook = hook;
}

void put_placeholders(std::span<c10::IValue> arguments) {
  Tracer* const tracer = Tracer::current();
  for (c10::IValue& argument : arguments) {
    if (!tracer || !placeholder_hook || !argument.isTensor() || !looks_like_one(argument.toTensor())) continue;
    const c10::IValue behind = placeholder_hook(argument.toTensor());
    if (behind.isSymInt()) {
      argument = tracer->wrap_number(dim_of(behind).size());
    } else if (behind.isSymFloat()) {
      const SymbolsScope sizes(tracer->symbols());
      at::Tensor number = number_behind(behind);
      const bool is_plain = !number.defined();  // No size has a part in it.
      argument = is_plain ? plain_number(behind.toSymFloat().guard_float(__FILE__, __LINE__)) : number;
    }
  }
}

}  // namespace braze::capture
