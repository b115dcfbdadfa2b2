// capture/engine_walk.cpp
#include "capture/engine_walk.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <optional>
#include <utility>

#include "capture/backward_formulas.h"
#include "support/error.h"

namespace braze::capture {

/// As the engine adds: into the gradient that was there, if nobody else holds it and nothing has a history. So the
/// sum lies as that did.
static at::Tensor sum_of_gradients(const at::Tensor& first, const at::Tensor& second) {
  if (at::GradMode::is_enabled()) return first + second;
  // Of its storage: the tracer's and the Memory's.
  const bool is_held_once = first.use_count() == 1 && first.has_storage() && first.storage().use_count() == 2;
  const bool is_written = is_held_once && first.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false();
  at::Tensor sum = first + second;
  if (!is_written) return sum;
  if (sum.sym_strides() != first.sym_strides()) {
    sum = at::empty_strided_symint(first.sym_sizes(), first.sym_strides(), first.options());
    at::add_out(sum, first, second);
  }
  sum.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(first._version() + 1));
  return sum;
}

bool EngineWalk::add_node(Node& node) {
  const auto [at, is_new] = states_.try_emplace(&node);
  if (is_new) at->second.inputs.resize(node.num_inputs());
  return is_new;
}

void EngineWalk::walk(const std::vector<Edge>& roots, const std::vector<at::Tensor>& tangents) {
  for (size_t k = 0; k < roots.size(); ++k) add(roots[k], tangents[k]);
  for (const Edge& root : roots)
    if (states_.at(root.function.get()).waits_for == 0) make_ready(root.function.get());
  while (!ready_.empty()) {
    Node* node = ready_.top().node;
    ready_.pop();
    step(*node, std::move(states_.at(node).inputs));
  }
}

EngineWalk::variable_list EngineWalk::compute(Node& node, variable_list inputs) {
  std::optional<variable_list> other = other_backward(node, inputs);
  return other ? *std::move(other) : node(std::move(inputs));
}

void EngineWalk::pass_on(const Node& node, variable_list outputs) {
  if (outputs.size() > node.num_outputs()) outputs.resize(node.num_outputs());
  torch::autograd::validate_outputs(node.next_edges(), outputs, [&](const std::string& text) {
    return concat("function ", node.name(), " returned an invalid gradient: ", text);
  });
  for (size_t k = 0; k < node.num_outputs(); ++k) {
    const Edge& edge = node.next_edge(k);
    if (!follows(edge)) continue;
    if (k < outputs.size()) add(edge, std::move(outputs[k]));
    if (--states_.at(edge.function.get()).waits_for == 0) make_ready(edge.function.get());
  }
}

void EngineWalk::check_hooks(Node& node) {
  if (!node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.post_hooks().empty() ||
      !node.retains_grad_hooks().empty())
    throw UserError("a tensor of the trace has hooks");
}

void EngineWalk::make_ready(Node* node) {
  if (runs(*node) && !std::exchange(states_.at(node).is_ready, true)) ready_.push({node->sequence_nr(), node});
}

void EngineWalk::add(const Edge& edge, at::Tensor gradient) {
  if (!gradient.defined()) return;
  at::Tensor& sum = states_.at(edge.function.get()).inputs.at(edge.input_nr);
  sum = sum.defined() ? sum_of_gradients(sum, gradient) : std::move(gradient);
}

}  // namespace braze::capture
