#include "runtime/autograd/second_derivative.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "capture/tape.h"
#include "support/error.h"

namespace braze::runtime {

using capture::Gradients;
using torch::autograd::variable_list;

namespace {

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

/// Puts generators back at its end.
class KeptStates {
 public:
  explicit KeptStates(std::span<const at::Generator> generators) : states_(generators) {}
  ~KeptStates() { states_.put_back(); }
  KeptStates(const KeptStates&) = delete;
  KeptStates& operator=(const KeptStates&) = delete;

 private:
  const capture::GeneratorStates states_;
};

}  // namespace

void ForwardInputs::note_version(uint32_t place, const at::Tensor& tensor) {
  versions_[place] = version_of(tensor);
}

void ForwardInputs::add(uint32_t place, const at::Tensor& tensor, bool holds) {
  constexpr size_t small = 1 << 16;
  others_.push_back({place, {}, c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr())});
  if (holds || tensor.nbytes() <= small) others_.back().held = tensor;
}

std::vector<at::Tensor> ForwardInputs::tensors() const {
  std::vector<at::Tensor> tensors(versions_.size());
  for (const Other& other : others_) {
    tensors[other.place] = other.held;
    if (other.held.defined()) continue;
    auto alive = other.seen.lock();
    if (!alive)
      throw UserError(
          "a tensor that the function was given, or that lay between two of its graphs, is gone; later calls keep "
          "theirs");
    tensors[other.place] = at::Tensor(std::move(alive));
  }
  return tensors;
}

void ForwardInputs::check_version(uint32_t place, const at::Tensor& tensor) const {
  if (version_of(tensor) != versions_[place])
    throw UserError("a tensor that the function read has been modified by an inplace operation since");
}

void ForwardInputs::release() {
  for (Other& other : others_) other.held.reset();
}

SecondDerivative::SecondDerivative(std::shared_ptr<const TrainingProgram> program, std::vector<at::Tensor> inputs,
                                   capture::GeneratorStates generators, const std::vector<at::Tensor>& tangents,
                                   std::vector<uint32_t> wanted, std::optional<std::vector<uint32_t>> inner)
    : program_(std::move(program)),
      wanted_(std::move(wanted)),
      inner_(std::move(inner)),
      generators_(std::move(generators)) {
  for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
  for (const at::Tensor& tangent : tangents) tangents_.emplace_back(tangent, /*is_output=*/false);
}

void SecondDerivative::release_variables() {
  for (auto* saved : {&inputs_, &tangents_})
    for (torch::autograd::SavedVariable& one : *saved) one.reset_data();
}

namespace {

std::vector<at::Tensor> run_forward(const TrainingProgram& program, const std::vector<at::Tensor>& inputs,
                                    const capture::GeneratorStates& generators) {
  const capture::Tape& tape = *program.gradients().tape;
  std::optional<KeptStates> kept;
  if (!tape.generators().empty()) {
    TORCH_CHECK(
        generators,
        "braze: the backward of a compiled function cannot be differentiated again (create_graph=True): its "
        "random numbers were drawn while a CUDA graph was captured.");
    kept.emplace(tape.generators());
    generators.put_back();
  }
  return tape.run_again(inputs, program.symbols());
}

/// Gradients of the leaves, with a graph.
struct First {
  /// By Gradients::inputs, and the latter by Gradients::inner behind them; undefined: the forward does not read it.
  std::vector<at::Tensor> leaves, gradients;
  std::vector<at::Tensor> inner;  ///< By Gradients::inner, of a backward in parts.
};

/// While it lives no gradient goes on from a node: what comes there is what the ways to it bring.
class DeadEnd {
 public:
  explicit DeadEnd(torch::autograd::Node& node)
      : node_(&node), edges_(std::exchange(node.next_edges(), torch::autograd::edge_list(node.num_outputs()))) {}
  ~DeadEnd() {
    if (node_) node_->next_edges() = std::move(edges_);
  }
  DeadEnd(DeadEnd&& other) noexcept : node_(std::exchange(other.node_, nullptr)), edges_(std::move(other.edges_)) {}
  DeadEnd(const DeadEnd&) = delete;
  DeadEnd& operator=(const DeadEnd&) = delete;

 private:
  torch::autograd::Node* node_;
  torch::autograd::edge_list edges_;
};

/// Of a backward in parts, `towards` being leaves and then inner results: those are on the way from one root at a
/// time, and what goes on from there comes by their own tangents.
void take_in_parts(const TrainingProgram& program, const std::vector<at::Tensor>& roots,
                   const std::vector<at::Tensor>& tangents, const variable_list& towards, variable_list& found) {
  for (size_t t = 0; t < roots.size(); ++t) {
    if (!tangents[t].defined()) continue;
    std::vector<DeadEnd> ends;
    for (const Gradients::Inner& one : program.gradients().inner) {
      const auto& node = roots[one.tangent].grad_fn();
      TORCH_CHECK(node && node->num_inputs() == 1,
                  "braze: a result that a hook sees is one of several of an operator");
      if (one.tangent != t) ends.emplace_back(*node);
    }
    variable_list others;
    std::vector<size_t> places;
    for (size_t k = 0; k < towards.size(); ++k) {
      if (towards[k].is_same(roots[t])) continue;  // It has been given what comes there.
      others.push_back(towards[k]);
      places.push_back(k);
    }
    if (others.empty()) continue;
    variable_list from_root = torch::autograd::grad({roots[t]}, others, {tangents[t]}, /*retain_graph=*/true,
                                                    /*create_graph=*/true, /*allow_unused=*/true);
    for (size_t k = 0; k < places.size(); ++k) {
      at::Tensor& sum = found[places[k]];
      if (from_root[k].defined()) sum = sum.defined() ? sum + from_root[k] : std::move(from_root[k]);
    }
  }
}

/// By result: whether the history of one of the gradients comes there, by no other one of them on the way.
std::vector<bool> leads_to(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& results) {
  std::unordered_map<const torch::autograd::Node*, size_t> place_of;
  for (size_t k = 0; k < results.size(); ++k) place_of.emplace(results[k].grad_fn().get(), k);
  std::vector<bool> found(results.size());
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> left;
  const auto visit = [&](const torch::autograd::Node* node) {
    if (!node || !seen.insert(node).second) return;
    if (const auto place = place_of.find(node); place != place_of.end())
      found[place->second] = true;
    else
      left.push_back(node);
  };
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) visit(gradient.grad_fn().get());
  while (!left.empty()) {
    const torch::autograd::Node* const node = left.back();
    left.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  return found;
}

First run_again(const TrainingProgram& program, std::vector<at::Tensor> inputs,
                const std::vector<at::Tensor>& tangents, const capture::GeneratorStates& generators,
                bool is_parted) {
  const Gradients& joint = program.gradients();
  const std::vector<capture::Tape::Input>& on_tape = joint.tape->inputs();
  const size_t count = joint.inputs.size() + joint.inner.size();
  First first{std::vector<at::Tensor>(joint.inputs.size()), std::vector<at::Tensor>(count), {}};
  for (size_t k = 0; k < first.leaves.size(); ++k)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (on_tape[i].graph_input == static_cast<int32_t>(joint.inputs[k].input)) first.leaves[k] = inputs[i];
  for (size_t i = 0; i < inputs.size(); ++i)  // What is written there has served its purpose.
    if (on_tape[i].graph_input >= 0 && program.is_written(on_tape[i].graph_input)) inputs[i] = inputs[i].clone();
  const std::vector<at::Tensor> roots = run_forward(program, inputs, generators);
  variable_list of, with;
  for (size_t t = 0; t < roots.size(); ++t) {
    if (!tangents[t].defined()) continue;
    TORCH_CHECK(roots[t].requires_grad(), "braze: the function cannot be repeated under autograd");
    of.push_back(roots[t]);
    with.push_back(tangents[t]);
  }
  variable_list read;  // Leaves that the forward reads.
  for (const at::Tensor& leaf : first.leaves)
    if (leaf.defined()) read.push_back(leaf);
  variable_list found;
  if (is_parted) {
    for (const Gradients::Inner& one : joint.inner) first.inner.push_back(roots[one.tangent]);
    read.insert(read.end(), first.inner.begin(), first.inner.end());
    found.resize(read.size());
    take_in_parts(program, roots, tangents, read, found);
  } else {
    found = torch::autograd::grad(of, read, with, /*retain_graph=*/true, /*create_graph=*/true,
                                  /*allow_unused=*/true);
  }
  size_t next = 0;
  for (size_t k = 0; k < first.leaves.size(); ++k)
    if (first.leaves[k].defined()) first.gradients[k] = std::move(found[next++]);
  for (size_t k = first.leaves.size(); k < count && is_parted; ++k) first.gradients[k] = std::move(found[next++]);
  return first;
}

}  // namespace

std::vector<bool> find_histories(const TrainingProgram& program, const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& tangents,
                                 const capture::GeneratorStates& generators, bool is_parted) {
  const at::AutoGradMode with_history(true);
  const auto own = [](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> detached;
    for (const at::Tensor& one : tensors)
      detached.push_back(one.defined() && one.requires_grad() ? one.detach().requires_grad_() : one);
    return detached;
  };
  const First first = run_again(program, own(inputs), own(tangents), generators, is_parted);
  std::vector<bool> found;
  for (const at::Tensor& gradient : first.gradients)
    found.push_back(!gradient.defined() || gradient.requires_grad());
  const std::vector<bool> led = leads_to(first.gradients, first.inner);
  found.insert(found.end(), led.begin(), led.end());
  return found;
}

variable_list SecondDerivative::apply(variable_list&& gradients) {
  const bool is_differentiated = at::GradMode::is_enabled();
  const at::AutoGradMode with_history(true);
  // Tensors of this node's own, so that no hook of the user's runs at them and nothing goes on beyond them.
  const auto own = [&](torch::autograd::SavedVariable& saved) {
    at::Tensor tensor = saved.unpack();
    if (!tensor.defined() || !tensor.requires_grad()) return tensor;
    return is_differentiated ? tensor.alias() : tensor.detach().requires_grad_();
  };
  std::vector<at::Tensor> inputs, tangents;
  for (torch::autograd::SavedVariable& saved : inputs_) inputs.push_back(own(saved));
  for (torch::autograd::SavedVariable& saved : tangents_) tangents.push_back(own(saved));
  const auto [leaves, first, inner] =
      run_again(*program_, inputs, tangents, generators_, /*is_parted=*/inner_.has_value());
  variable_list of, with;
  for (size_t k = 0; k < wanted_.size(); ++k) {
    const at::Tensor& gradient = first[wanted_[k]];
    if (!gradients[k].defined() || !gradient.defined() || !gradient.requires_grad()) continue;
    of.push_back(gradient);
    with.push_back(gradients[k]);
  }
  variable_list results(num_outputs()), towards;
  std::vector<size_t> places;
  const auto want = [&](size_t place, const at::Tensor& tensor) {
    if (!tensor.defined() || !task_should_compute_output(place)) return;
    places.push_back(place);
    towards.push_back(tensor);
  };
  for (size_t k = 0; k < leaves.size(); ++k) want(k, leaves[k]);
  size_t place = leaves.size();
  std::vector<DeadEnd> ends;
  for (size_t k = 0; inner_ && k < inner_->size(); ++k) {
    const at::Tensor& result = inner[(*inner_)[k]];
    ends.emplace_back(*result.grad_fn());
    want(place++, result);
  }
  for (const at::Tensor& tangent : tangents)
    if (tangent.defined() && tangent.requires_grad()) want(place++, tangent);
  if (of.empty() || towards.empty()) return results;
  variable_list found = torch::autograd::grad(of, towards, with, /*retain_graph=*/is_differentiated,
                                              /*create_graph=*/is_differentiated, /*allow_unused=*/true);
  for (size_t k = 0; k < places.size(); ++k) results[places[k]] = std::move(found[k]);
  return results;
}

}  // namespace braze::runtime
