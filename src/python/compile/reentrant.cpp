// python/compile/reentrant.cpp
#include "python/compile/reentrant.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>
#include <vector>

#include "capture/recorder.h"
#include "capture/trace.h"
#include "capture/tracer_tensor.h"

namespace braze::python {
namespace {

namespace autograd = torch::autograd;

bool has_hooks(const at::Tensor& leaf) {
  const autograd::AutogradMeta* const meta = autograd::impl::get_autograd_meta(leaf);
  return meta && (!meta->hooks_.empty() || meta->cpp_hooks_list_ || meta->post_acc_grad_hooks_);
}

thread_local uint64_t marks = 0;

}  // namespace

HistoryMark history_mark() {
  return {at::sequence_number::peek(), ++marks};
}

bool is_same_within(std::span<const at::Tensor> results, std::span<const at::Tensor> inputs, HistoryMark mark) {
  capture::Tracer* const tracer = capture::Tracer::current();
  if (!tracer || mark.marks != marks) return false;
  std::unordered_set<const autograd::Node*> met;
  for (const at::Tensor& input : inputs) {
    const at::Tensor known = capture::is_tracer(input) ? input : tracer->stand_in(input);
    if (known.requires_grad()) met.insert(autograd::impl::gradient_edge(known).function.get());
  }
  std::vector<const autograd::Node*> left;
  const auto go_to = [&](const autograd::Node* node) {
    if (node && met.insert(node).second) left.push_back(node);
  };
  for (const at::Tensor& result : results)
    if (result.requires_grad()) go_to(autograd::impl::gradient_edge(result).function.get());
  while (!left.empty()) {
    const autograd::Node* const node = left.back();
    left.pop_back();
    if (const auto* const leaf = dynamic_cast<const autograd::AccumulateGrad*>(node)) {
      const at::Tensor& variable = leaf->variable;
      const at::Tensor* const real =
          capture::is_tracer(variable) ? tracer->impl().bound_as(tracer->impl().view_of(variable)) : &variable;
      if (!real || has_hooks(*real)) return false;  // Null: the function has made it.
      continue;
    }
    if (node->sequence_nr() < mark.node || node->next_edges().empty()) return false;
    for (const autograd::Edge& edge : node->next_edges()) go_to(edge.function.get());
  }
  return true;
}

}  // namespace braze::python
