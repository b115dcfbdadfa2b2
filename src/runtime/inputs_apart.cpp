#include "runtime/inputs_apart.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

namespace braze::runtime {

std::vector<bool> inputs_apart(const capture::Trace& trace, const std::vector<at::Tensor>& arguments) {
  struct Place {
    const char *begin, *end;
    size_t input;
  };
  const auto& inputs = trace.graph->inputs();
  std::vector<bool> apart(inputs.size());
  std::vector<Place> places;
  size_t next_argument = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* example = nullptr;
    if (inputs[i].kind != ir::InputKind::argument)
      example = &trace.bound.at(i);
    else if (const size_t argument = next_argument++; argument < arguments.size())
      example = &arguments[argument];
    if (!example || !example->has_storage() || example->is_meta()) continue;
    apart[i] = true;
    if (example->numel() == 0) continue;
    const char* begin = static_cast<const char*>(example->const_data_ptr());
    const size_t bytes =
        at::detail::computeStorageNbytes(example->sizes(), example->strides(), example->itemsize());
    places.push_back({begin, begin + bytes, i});
  }
  std::ranges::sort(places, {}, &Place::begin);
  for (size_t k = 1, widest = 0; k < places.size(); ++k) {
    if (places[k].begin < places[widest].end) apart[places[k].input] = apart[places[widest].input] = false;
    if (places[k].end > places[widest].end) widest = k;
  }
  return apart;
}

}  // namespace braze::runtime
