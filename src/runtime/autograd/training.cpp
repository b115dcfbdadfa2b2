#include "runtime/autograd/training.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

#include "capture/autograd_node.h"
#include "runtime/autograd/node.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

using capture::Gradients;
using capture::OutputRecipe;
using Result = Gradients::Result;

/// The first part of the trace, with the hidden tensors and what is saved among its results. Counts the results of
/// the user's in.
capture::Trace forward_trace(const capture::Trace& joint, std::shared_ptr<ir::Graph> graph,
                             std::vector<passes::Saved>& saved) {
  const Gradients& gradients = *joint.gradients;
  capture::Trace trace;
  trace.graph = std::move(graph);
  for (uint32_t k = 0; k < gradients.first_tangent; ++k) trace.bound.push_back(joint.bound[k]);
  trace.objects = joint.objects;
  trace.outputs = joint.outputs;
  std::ranges::copy(joint.hidden, std::back_inserter(trace.outputs));
  for (size_t r = 0; r < trace.outputs.size(); ++r) {
    const Result::Kind kind = gradients.results[r].kind;
    // A view with a history is made of its base when that has one.
    if (kind == Result::Kind::view_of_other || kind == Result::Kind::view_of_input)
      trace.outputs[r].base_kind = OutputRecipe::Base::none;
  }
  for (passes::Saved& one : saved) {
    if (one.kind != passes::Saved::Kind::output) continue;
    OutputRecipe recipe;
    recipe.index = one.index;
    one.index = static_cast<uint32_t>(trace.outputs.size());
    trace.outputs.push_back(std::move(recipe));
  }
  trace.writes.assign(joint.writes.begin(), joint.writes.begin() + gradients.first_tangent);
  trace.place_modulus.assign(joint.place_modulus.begin(), joint.place_modulus.begin() + gradients.first_tangent);
  return trace;
}

capture::Trace backward_trace(const capture::Trace& joint, std::shared_ptr<ir::Graph> graph, size_t saved) {
  const Gradients& gradients = *joint.gradients;
  capture::Trace trace;
  trace.graph = std::move(graph);
  for (size_t k = 0; k < saved; ++k) trace.bound.push_back(at::Tensor());
  for (size_t k = gradients.first_tangent; k < joint.bound.size(); ++k) trace.bound.push_back(joint.bound[k]);
  trace.objects = joint.objects;
  for (uint32_t k = 0; k < trace.graph->outputs().size(); ++k) trace.outputs.emplace_back().index = k;
  trace.writes.assign(trace.graph->inputs().size(), 0);
  trace.place_modulus.assign(trace.graph->inputs().size(), 1);
  return trace;
}

}  // namespace

std::shared_ptr<const TrainingProgram> TrainingProgram::compile(capture::Trace trace, const ProgramOptions& options,
                                                                PhaseTimes times) {
  BRAZE_CHECK(trace.gradients, "a trace without a backward");
  std::shared_ptr<TrainingProgram> made(new TrainingProgram);
  made->gradients_ = *trace.gradients;
  const Gradients& gradients = made->gradients_;
  passes::Partition parts;
  {
    PhaseTimer timer(&times, "partition");
    parts = passes::partition(
        {trace.graph.get(), gradients.first_backward, gradients.first_tangent, gradients.first_gradient});
  }
  made->saved_ = std::move(parts.saved);
  made->saved_bytes_ = parts.saved_bytes;
  made->result_count_ = trace.outputs.size();
  for (size_t k = 0; k < gradients.first_tangent; ++k) {
    const bool is_argument = trace.graph->inputs()[k].kind == ir::InputKind::argument;
    const auto before = std::ranges::count_if(made->argument_of_, [](int32_t number) { return number >= 0; });
    made->argument_of_.push_back(is_argument ? static_cast<int32_t>(before) : -1);
  }
  for (uint32_t t = 0; t < gradients.tangents; ++t)
    made->tangents_.push_back(Geometry::of(*trace.graph->inputs()[gradients.first_tangent + t].value->type));
  capture::Trace forward = forward_trace(trace, std::move(parts.forward), made->saved_);
  if (gradients.tangents > 0) {
    ProgramOptions backward_options = options;
    backward_options.example_arguments.clear();
    backward_options.kept_elsewhere.clear();
    backward_options.prepack_weights = false;
    capture::Trace backward = backward_trace(trace, std::move(parts.backward), made->saved_.size());
    made->backward_ = Program::compile(std::move(backward), backward_options, {});
    for (const PhaseTimes::Row& row : made->backward_->facts().times.rows())
      times.add(row.name.c_str(), row.nanoseconds, row.allocations);
  }
  made->forward_ = Program::compile(std::move(forward), options, std::move(times));
  return made;
}

const at::Tensor& TrainingProgram::input(uint32_t number, const at::Tensor* const* arguments) const {
  return argument_of_[number] < 0 ? forward_->trace().bound[number] : *arguments[argument_of_[number]];
}

at::Tensor TrainingProgram::saved_tensor(const passes::Saved& saved, const at::Tensor* const* arguments,
                                         const std::vector<at::Tensor>& results) const {
  switch (saved.kind) {
    case passes::Saved::Kind::input: return input(saved.index, arguments);
    // The tensor itself will have the node that saves it for its history.
    case passes::Saved::Kind::written: return input(saved.index, arguments).detach();
    case passes::Saved::Kind::output: return results[saved.index];
  }
  return {};
}

void TrainingProgram::run(const at::Tensor* const* arguments, at::Tensor* results) const {
  std::vector<at::Tensor> all(forward_->result_count());
  forward_->run(arguments, all.data());
  const at::AutoGradMode gradients_on(true);
  if (backward_) {
    const auto node = capture::make_node<BackwardNode>(shared_from_this());
    for (const Gradients::Input& one : gradients_.inputs)
      node->add_next_edge(torch::autograd::impl::gradient_edge(input(one.input, arguments)));
    std::vector<at::Tensor> saved;
    for (const passes::Saved& one : saved_) saved.push_back(saved_tensor(one, arguments, all));
    node->save(std::move(saved));
    std::vector<at::Tensor> roots(gradients_.tangents);
    for (size_t r = 0; r < gradients_.results.size(); ++r)
      if (gradients_.results[r].kind == Result::Kind::root) roots[gradients_.results[r].index] = all[r];
    for (const Gradients::Written& one : gradients_.written) roots[one.tangent] = input(one.input, arguments);
    for (const at::Tensor& root : roots) {
      const uint32_t number = node->add_input_metadata(root);
      if (root.requires_grad())
        torch::autograd::impl::rebase_history(root, {node, number});  // An input that was written.
      else
        torch::autograd::impl::set_gradient_edge(root, {node, number});
    }
  }
  for (size_t r = 0; r < result_count_; ++r) {
    const Result& result = gradients_.results[r];
    if (result.kind == Result::Kind::view_of_other || result.kind == Result::Kind::view_of_input) {
      const at::Tensor& base =
          result.kind == Result::Kind::view_of_other ? all[result.index] : input(result.index, arguments);
      all[r] = base.as_strided(all[r].sizes(), all[r].strides(), all[r].storage_offset());
    }
  }
  for (size_t r = 0; r < result_count_; ++r) results[r] = std::move(all[r]);
}

}  // namespace braze::runtime
