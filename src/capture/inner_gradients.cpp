// capture/inner_gradients.cpp
#include "capture/inner_gradients.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <typeinfo>
#include <unordered_map>

#include "capture/autograd_node.h"
#include "capture/engine_walk.h"
#include "capture/recorder.h"
#include "capture/rerun_gradients.h"
#include "capture/tape.h"
#include "capture/traceable.h"
#include "support/error.h"

namespace braze::capture {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

static bool has_hooks(const at::Tensor& tensor) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta && (!meta->hooks_.empty() || meta->cpp_hooks_list_ || meta->post_acc_grad_hooks_);
}

/// As PyTorch's engine goes, for some inputs: nodes that lead to none of them do not run.
class InnerBackward final : EngineWalk {
 public:
  InnerBackward(const Recorder& recorder, const GradientCall& call) : recorder_(recorder), call_(call) {
    for (const auto& [impl, bound] : recorder.bound_)
      if (bound.history) begins_at_.try_emplace(bound.history->edge.function.get(), &bound.real);
  }

  std::vector<at::Tensor> run() {
    for (const at::Tensor& input : call_.inputs) inputs_.push_back(torch::autograd::impl::gradient_edge(input));
    check_inputs();
    std::vector<Edge> roots;
    for (const at::Tensor& output : call_.outputs) roots.push_back(torch::autograd::impl::gradient_edge(output));
    for (const Edge& root : roots) discover(root.function.get());
    for (const Edge& input : inputs_)
      if (is_known(input.function.get())) uses_[input.function.get()].is_input = true;
    for (const Node* node : order_) find_needed(*node);
    check_ways_outside();
    found_.resize(inputs_.size());
    walk(roots, call_.tangents);
    return std::move(found_);
  }

 private:
  struct Use {
    bool is_input = false;   ///< A gradient that is asked for arrives here.
    bool is_needed = false;  ///< It leads on to such.
  };

  /// All nodes, each behind those that it leads to; what each waits for.
  void discover(Node* root) {
    std::vector<std::pair<Node*, size_t>> stack;
    const auto visit = [&](Node* node) {
      if (!add_node(*node)) return;
      check(*node);
      stack.emplace_back(node, 0);
    };
    visit(root);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->num_outputs()) {
        order_.push_back(node);
        stack.pop_back();
        continue;
      }
      const Edge edge = node->next_edge(next++);
      if (!edge.is_valid()) continue;
      visit(edge.function.get());
      wait_for_one(edge);
    }
  }

  void find_needed(const Node& node) {
    const bool is_needed = std::ranges::any_of(
        node.next_edges(), [&](const Edge& edge) { return edge.is_valid() && runs(*edge.function); });
    if (is_needed) uses_[&node].is_needed = true;
  }

  /// Throws for Python code, which may do something beside computing, and for hooks.
  static void check(Node& node) {
    const std::string_view type = typeid(node).name();
    if (type.find("PyNode") != type.npos || (type.find("CppNode") != type.npos && !is_rerun(node)) ||
        (type.find("braze") != type.npos && node.num_outputs() > 0 && !is_rerun(node)))
      throw UserError(concat("a function has a gradient of its own (", node.name(), ")"));
    check_hooks(node);
  }

  /// Hooks see a gradient that is asked for. A tensor from outside that keeps its own keeps this one, too, and no
  /// guard says whether one does.
  void check_inputs() const {
    for (const Edge& input : inputs_)
      if (const at::Tensor* const real = begins_at(input.function.get());
          real && (!real->is_leaf() || has_hooks(*real)))
        throw UserError("somebody may look at the gradient of a tensor from outside");
  }

  /// The tensor from outside whose history begins there. Else null.
  const at::Tensor* begins_at(const Node* node) const {
    const auto at = begins_at_.find(node);
    return at == begins_at_.end() ? nullptr : at->second;
  }

  /// The history of a tensor from outside may lead to other inputs, which are from outside as well.
  void check_ways_outside() const {
    for (const Node* node : order_) {
      const at::Tensor* const real = begins_at(node);
      if (!real && node->sequence_nr() < recorder_.first_sequence_number_)
        throw UserError("a history from outside of the trace");
      if (!real || real->is_leaf()) continue;
      const auto is_elsewhere = [&](size_t k) {
        return inputs_[k].function.get() != node && recorder_.stood_in_by(call_.inputs[k]);
      };
      for (size_t k = 0; k < inputs_.size(); ++k)
        if (is_elsewhere(k)) throw UserError("the gradient may come by ways outside of the trace");
    }
  }

  bool runs(const Node& node) const override { return uses_.contains(&node); }

  void step(Node& node, variable_list inputs) override {
    const Use& use = uses_.at(&node);
    if (use.is_input)
      for (size_t k = 0; k < inputs_.size(); ++k)
        if (inputs_[k].function.get() == &node) found_[k] = inputs.at(inputs_[k].input_nr);
    if (!use.is_needed) return;
    variable_list outputs = compute(node, std::move(inputs));
    if (!call_.keeps_graph) node.release_variables();
    pass_on(node, std::move(outputs));
  }

  const Recorder& recorder_;
  const GradientCall& call_;
  std::vector<Edge> inputs_;
  std::vector<at::Tensor> found_;
  std::unordered_map<const Node*, const at::Tensor*> begins_at_;
  std::unordered_map<const Node*, Use> uses_;  ///< Of nodes that are to run.
  std::vector<const Node*> order_;
};

namespace {

/// Whoever watches a backward, or has a part in it.
bool is_watched() {
  return torch::autograd::AnomalyMode::is_enabled() || c10::InferenceMode::is_enabled() ||
         !at::SavedTensorDefaultHooks::get_tls_state().stack.empty() ||
         at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA);
}

}  // namespace

std::optional<std::vector<at::Tensor>> inner_gradients(Recorder& recorder, const GradientCall& given) {
  // Other people's compilers get a forward that autograd differentiates.
  const TapeRecorder* const tape = TapeRecorder::current();
  if (tape && !tape->can_be_lost()) return std::nullopt;
  if (is_watched() || recorder.own_gradients == Recorder::OwnGradients::refused) return std::nullopt;
  recorder.own_gradients = Recorder::OwnGradients::some;
  GradientCall call = given;
  const auto is_fit = [&](at::Tensor& one) {
    if (!one.defined() || is_transformed(one) || one.is_inference() || has_hooks(one)) return false;
    if (!is_tracer(one)) one = recorder.stand_in(one);
    return one.requires_grad();
  };
  if (!std::ranges::all_of(call.outputs, is_fit) || !std::ranges::all_of(call.inputs, is_fit)) return std::nullopt;
  if (std::ranges::any_of(call.tangents, is_transformed)) return std::nullopt;
  const at::AutoGradMode with_history(call.creates_graph);
  try {
    return InnerBackward(recorder, call).run();
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception&) {  // No rule, no formula, a node that has run and kept nothing.
    return std::nullopt;
  }
}

bool begin_leaf(Recorder& recorder, const at::Tensor& computed, bool wants_gradients) {
  using Own = Recorder::OwnGradients;
  Own& own = recorder.own_gradients;
  if (computed.is_inference() || is_transformed(computed) || (own == Own::refused && wants_gradients)) return false;
  if (own == Own::none) own = Own::some;
  TapeRecorder* const tape = TapeRecorder::current();
  if (tape && !tape->can_be_lost()) return !wants_gradients;
  if (tape) tape->begin_leaf(computed);
  return true;
}

}  // namespace braze::capture
