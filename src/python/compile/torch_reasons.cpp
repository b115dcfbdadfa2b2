// python/compile/torch_reasons.cpp: why what is done with tensors ends a graph, in words of PyTorch's.
#include <string_view>
#include <unordered_map>

#include "capture/recorder.h"
#include "capture/sparse_gradients.h"
#include "python/compile/captured_run.h"
#include "python/compile/torch_world.h"
#include "python/compile/value_reads.h"

namespace braze::python {

std::optional<interpreter::Break> TorchWorld::why_not(PyObject* name) const {
  using interpreter::Break;
  static const std::unordered_map<std::string_view, Break> reasons = {{"tolist", Break::tolist},
                                                                      {"numpy", Break::numpy},
                                                                      {"__array__", Break::numpy},
                                                                      {"data_ptr", Break::memory_address},
                                                                      {"storage", Break::memory_address},
                                                                      {"untyped_storage", Break::memory_address},
                                                                      {"_typed_storage", Break::memory_address}};
  const auto found = reasons.find(text_of(name));
  return found == reasons.end() ? std::nullopt : std::optional(found->second);
}

std::optional<interpreter::Break> TorchWorld::why_raised() const {
  if (capture::take_sparse_refusal(tracer_.impl())) return interpreter::Break::gradients;
  if (tracer_.last_read().empty()) return std::nullopt;
  return python::why_read(tracer_.last_read());
}

}  // namespace braze::python
