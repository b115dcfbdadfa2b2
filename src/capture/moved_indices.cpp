#include "capture/moved_indices.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace braze::capture {

bool takes_indices(std::string_view operator_name) {
  constexpr std::string_view names[] = {"aten::index",         "aten::index_put",        "aten::index_put_",
                                        "aten::_unsafe_index", "aten::_index_put_impl_", "aten::_unsafe_index_put"};
  return std::ranges::find(names, operator_name) != std::end(names);
}

void move_indices(torch::jit::Stack& stack, size_t count) {
  const at::Tensor& self = stack[stack.size() - count].toTensor();
  if (self.is_cpu()) return;
  c10::IValue& given = stack[stack.size() - count + 1];
  std::vector<std::optional<at::Tensor>> indices = given.toOptionalTensorVector();
  const auto is_elsewhere = [&](const std::optional<at::Tensor>& index) {
    return index && index->defined() && index->is_cpu();
  };
  if (std::ranges::none_of(indices, is_elsewhere)) return;
  c10::List<std::optional<at::Tensor>> moved;
  for (const std::optional<at::Tensor>& index : indices)
    moved.push_back(is_elsewhere(index) ? index->to(self.device()) : index);
  given = std::move(moved);
}

}  // namespace braze::capture
