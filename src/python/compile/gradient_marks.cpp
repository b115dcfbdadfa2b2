// python/compile/gradient_marks.cpp
#include "python/compile/gradient_marks.h"

#include "capture/recorder.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "capture/traceable.h"
#include "capture/tracer_tensor.h"

namespace braze::python {

std::optional<int64_t> gradient_mark(const at::Tensor& given) {
  capture::Tracer* const tracer = capture::Tracer::current();
  if (!tracer || capture::is_transformed(given) || given.is_inference()) return std::nullopt;
  const at::Tensor tensor = capture::is_tracer(given) ? given : tracer->stand_in(given);
  if (!tensor.requires_grad()) return std::nullopt;
  // Views are made again of what they are views of: what comes by other views of that does not come by this one.
  const capture::ViewPtr& view = tracer->impl().view_of(tensor);
  if (tensor.is_view() && view->input < 0) return std::nullopt;
  const auto version = static_cast<uint64_t>(view->memory->version);
  const auto history = reinterpret_cast<uintptr_t>(tensor.grad_fn().get());
  return static_cast<int64_t>(((history >> 4) ^ (version << 44)) >> 1);  // Python's ints have a sign.
}

}  // namespace braze::python
