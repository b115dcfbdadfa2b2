#include "runtime/autograd/node.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "capture/autograd_node.h"

namespace braze::runtime {

using torch::autograd::variable_list;

BackwardNode::BackwardNode(std::shared_ptr<const TrainingProgram> program)
    : program_(std::move(program)),
      released_(program_->seam_->parts.size()),
      running_(program_->seam_->parts.size()) {}

void BackwardNode::save(std::vector<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) saved_.emplace_back(tensor, /*is_output=*/false);
}

void BackwardNode::will_release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_last_ = true;
}

void BackwardNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_last_ = false;
  std::vector<bool> left(released_.size());
  for (size_t p = 0; p < released_.size(); ++p) {
    released_[p] = released_[p] || running_[p];
    left[p] = !released_[p];
  }
  const std::vector<bool> kept = read_by(left);
  for (size_t k = 0; k < saved_.size(); ++k)
    if (!kept[k]) saved_[k].reset_data();
}

std::vector<bool> BackwardNode::read_by(const std::vector<bool>& parts) const {
  std::vector<bool> read(saved_.size());
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t k = 0; parts[p] && k < saved_.size(); ++k) read[k] = read[k] || program_->seam_->parts[p].saved[k];
  return read;
}

std::vector<at::Tensor> BackwardNode::unpack() {
  std::vector<bool> later(running_.size());
  for (size_t p = 0; p < later.size(); ++p) later[p] = !running_[p] && !released_[p];
  const std::vector<bool> read = read_by(running_), kept = read_by(later);
  std::vector<at::Tensor> values;
  values.reserve(saved_.size() + program_->tangents_.size());
  for (size_t k = 0; k < saved_.size(); ++k) {
    if (!read[k]) {
      values.push_back(program_->saved_geometries_[k].allocate());
      const at::NoGradGuard no_history;
      values.back().zero_();  // Places of elements that are read must be valid ones.
      continue;
    }
    values.push_back(saved_[k].unpack());
    if (is_last_ && !kept[k]) saved_[k].reset_data();
  }
  return values;
}

namespace {

/// Where someone differentiates the backward itself.
variable_list once_differentiable(variable_list gradients, torch::autograd::edge_list edges) {
  const auto error = capture::make_node<torch::autograd::Error>(
      "braze: the backward of a compiled function cannot be differentiated again (create_graph=True). Call the "
      "function itself, without braze.compile, where second derivatives are wanted.",
      std::move(edges));
  for (at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    gradient = gradient.detach();  // It may be a tangent, which has a history of its own.
    torch::autograd::set_history(gradient, error);
  }
  return gradients;
}

}  // namespace

variable_list BackwardNode::apply(variable_list&& tangents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const capture::Gradients& gradients = program_->seam_->gradients;
  for (size_t p = 0; p < running_.size(); ++p) {
    running_[p] = false;
    for (size_t t = 0; t < tangents.size(); ++t)
      if (tangents[t].defined() && program_->seam_->parts[p].tangents[t]) running_[p] = true;
    TORCH_CHECK(!running_[p] || !released_[p], torch::autograd::ERR_BACKWARD_TWICE);
  }
  variable_list given(gradients.inputs.size());
  std::vector<bool> wanted(given.size());
  bool any_output = false;
  for (size_t k = 0; k < given.size(); ++k) {
    const capture::Gradients::Input& input = gradients.inputs[k];
    bool depends = false;
    for (size_t t = 0; t < tangents.size(); ++t) depends |= tangents[t].defined() && input.from[t];
    wanted[k] = depends && task_should_compute_output(k);
    any_output |= wanted[k] && input.kind == capture::Gradients::Input::Kind::output;
  }
  std::vector<at::Tensor> arguments;
  if (any_output) {
    arguments = unpack();
    for (size_t t = 0; t < tangents.size(); ++t) {
      const Geometry& expected = program_->tangents_[t];
      const at::Tensor& tangent = tangents[t];
      if (tangent.defined() && expected.matches(tangent)) {
        arguments.push_back(tangent);
        continue;
      }
      arguments.push_back(expected.allocate());
      const at::NoGradGuard no_history;
      tangent.defined() ? arguments.back().copy_(tangent) : arguments.back().zero_();
    }
    std::vector<at::Tensor> computed(program_->backward()->result_count());
    if (is_last_ && !at::GradMode::is_enabled()) {
      program_->backward()->run_consuming(arguments, computed.data());
    } else {
      std::vector<const at::Tensor*> pointers;
      for (const at::Tensor& argument : arguments) pointers.push_back(&argument);
      program_->backward()->run(pointers.data(), computed.data());
    }
    for (size_t k = 0; k < given.size(); ++k)
      if (wanted[k] && gradients.inputs[k].kind == capture::Gradients::Input::Kind::output)
        given[k] = computed[gradients.inputs[k].index];
  }
  for (size_t k = 0; k < given.size(); ++k)
    if (wanted[k] && gradients.inputs[k].kind == capture::Gradients::Input::Kind::tangent)
      given[k] = tangents[gradients.inputs[k].index];
  if (!at::GradMode::is_enabled()) return given;
  torch::autograd::edge_list edges = next_edges();
  for (const at::Tensor& tangent : tangents)
    if (tangent.defined() && tangent.requires_grad())
      edges.push_back(torch::autograd::impl::gradient_edge(tangent));
  return once_differentiable(std::move(given), std::move(edges));
}

}  // namespace braze::runtime
