// runtime/autograd/node_versions.cpp: errors about what was written to between forward and backward, as in eager.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "capture/engine_order.h"
#include "runtime/autograd/node.h"
#include "support/error.h"

namespace braze::runtime {

using capture::VersionChecks;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
using GradientKind = capture::Gradients::Input::Kind;

void BackwardNode::watch(const at::Tensor* const* arguments, const std::vector<at::Tensor>& results) {
  const VersionChecks* const checks = program_->checks();
  if (!checks) return;
  for (const auto& reads : checks->reads) late_values_.push_back(reads->read());
  if (has_hooks_) return;
  versions_.reserve(checks->watched.size());
  for (const VersionChecks::Watched& one : checks->watched)
    versions_.add(one.kind == VersionChecks::Watched::Kind::input ? program_->input(one.index, arguments)
                                                                  : results[one.index]);
}

void BackwardNode::check_versions(const variable_list& tangents, std::unique_lock<std::mutex>& lock) {
  if (!versions_.any_is_modified()) [[likely]]
    return;
  const std::vector<capture::Gradients::Input>& inputs = program_->gradients().inputs;
  const std::vector<capture::Gradients::Inner>& inner = program_->gradients().inner;
  Bits wanted(program_->seam_->asked_for());
  for (size_t k = 0; k < inputs.size(); ++k)
    if (is_wanted(k, tangents)) wanted.set(k);
  for (size_t k = 0; k < inner.size(); ++k)
    if (run_.led[inner[k].output]) wanted.set(inputs.size() + k);
  for (const VersionChecks::Check& check : program_->checks()->in_order) {
    if (!check.tangents.meets(run_.came) || !check.gradients.meets(wanted)) continue;
    for (const VersionChecks::Saved& saved : check.saved) {
      if (!versions_.is_modified(saved.watched)) continue;
      const std::string text = told(saved);
      give_leaves_before(check.leaves_before, tangents, lock);
      TORCH_CHECK(false, text);
    }
  }
}

namespace {

/// What PyTorch's message ends with, which depends on its version and on whether anomalies are being detected.
std::string advice() {
  const at::NoGradGuard no_history;
  const at::Tensor tensor = at::empty({0});
  const torch::autograd::SavedVariable saved(tensor, /*is_output=*/false);
  tensor.unsafeGetTensorImpl()->bump_version();
  try {
    saved.unpack();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    constexpr std::string_view before = " instead.";
    if (const size_t at = text.find(before); at != std::string::npos) return text.substr(at + before.size());
  }
  return {};
}

}  // namespace

/// The words of torch::autograd::SavedVariable.
std::string BackwardNode::told(const VersionChecks::Saved& saved) const {
  const VersionChecks& checks = *program_->checks();
  std::vector<int64_t> all(checks.sizes.result_count()), sizes;
  if (checks.sizes.run(program_->symbols(), all))
    for (const uint32_t size : saved.sizes) sizes.push_back(all[size]);
  std::string history = saved.history;
  const std::vector<capture::Gradients::Input>& inputs = program_->gradients().inputs;
  for (size_t k = 0; k < inputs.size() && saved.input >= 0; ++k) {
    if (inputs[k].input != static_cast<uint32_t>(saved.input)) continue;
    const Edge& from = edge(k);
    if (from.is_valid() && from.function->sequence_nr() != UINT64_MAX)
      history = concat(", which is output ", from.input_nr, " of ", capture::told_name(*from.function), ",");
  }
  return c10::str(
      "one of the variables needed for gradient computation has been modified by an inplace operation: [",
      saved.type, " ", c10::IntArrayRef(sizes), "]", history, " is at version ", versions_.current(saved.watched),
      "; expected version ", versions_.expected(saved.watched), " instead.", advice());
}

namespace {

/// Leaves whose gradients come from the given nodes alone, as far as this backward goes: they need not wait for
/// others.
std::unordered_set<const Node*> leaves_of_others(const std::vector<const Node*>& mine) {
  std::unordered_set<const Node*> found;
  const auto* const nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  if (!nodes) return found;
  for (const Node* node : *nodes) {
    if (std::ranges::find(mine, node) != mine.end()) continue;
    for (const Edge& edge : node->next_edges())
      if (edge.is_valid()) found.insert(edge.function.get());
  }
  return found;
}

/// A gradient that is accumulated, and not handed to whoever has asked for it.
bool is_accumulated(const Edge& edge) {
  const auto* const info = torch::autograd::get_current_graph_task_exec_info();
  if (!info || info->empty()) return true;
  const auto found = info->find(edge.function.get());
  return found != info->end() && found->second.needed_;
}

}  // namespace

/// A node gives all of its gradients or none, so these are handed out by a backward within this one.
void BackwardNode::give_leaves_before(uint32_t count, const variable_list& tangents,
                                      std::unique_lock<std::mutex>& lock) {
  const VersionChecks& checks = *program_->checks();
  const std::vector<capture::Gradients::Input>& inputs = program_->gradients().inputs;
  const std::unordered_set<const Node*> of_others = leaves_of_others(nodes_);
  std::vector<uint32_t> places;
  for (const uint32_t place : std::span(checks.leaves).first(count)) {
    const Edge& to = edge(place);
    if (!is_wanted(place, tangents) || to.function->sequence_nr() != UINT64_MAX || !is_accumulated(to) ||
        of_others.contains(to.function.get()))
      continue;
    // Of DistributedDataParallel, which counts on all of them.
    if (!to.function->post_hooks().empty()) return;
    places.push_back(place);
  }
  if (places.empty()) return;
  const bool was_last = std::exchange(is_last_, false);  // What is saved stays.
  run_.is_whole = false;
  run_.gradients = Bits(program_->gradient_count());
  for (const uint32_t place : places)
    if (inputs[place].kind == GradientKind::output) run_.gradients.set(inputs[place].index);
  std::vector<at::Tensor> computed;
  try {
    const at::AutoGradMode no_history(false);
    if (run_.gradients.any()) computed = compute(tangents);
  } catch (const c10::Error&) {  // They read what was written to, too.
    is_last_ = was_last;
    return;
  }
  is_last_ = was_last;
  torch::autograd::edge_list edges(places.size());
  variable_list gradients(places.size());
  const std::vector<size_t> runs = capture::run_order_of_leaves(places.size(), 0);
  for (size_t k = 0; k < places.size(); ++k) {
    const capture::Gradients::Input& input = inputs[places[k]];
    edges[runs[k]] = edge(places[k]);
    gradients[runs[k]] = (input.kind == GradientKind::output ? computed : tangents)[input.index];
  }
  lock.unlock();
  torch::autograd::Engine::get_default_engine().execute(edges, gradients, /*keep_graph=*/true,
                                                        /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace braze::runtime
