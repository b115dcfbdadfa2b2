#include "runtime/autograd/node.h"

#include <ATen/ATen.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "capture/autograd_node.h"
#include "capture/tape.h"
#include "runtime/autograd/batched.h"
#include "support/error.h"

namespace braze::runtime {

using torch::autograd::variable_list;
using GradientKind = capture::Gradients::Input::Kind;

namespace {

/// torch.utils.checkpoint.GraphExecGroup, which lets several backwards share one recomputation as long as no two of
/// them unpack the same. Those of eager's nodes do not, but these may. Null: none is entered.
template <typename State>
const void* backward_group(const State& state) {
  if constexpr (requires { state.get_graph_exec_group(); })
    if (const auto& group = state.get_graph_exec_group()) return group->ptr(&group->pyinterpreter());
  return nullptr;
}

Bits all(size_t count) {
  Bits bits(count);
  for (size_t k = 0; k < count; ++k) bits.set(k);
  return bits;
}

}  // namespace

BackwardNode::BackwardNode(std::shared_ptr<const TrainingProgram> program) : program_(std::move(program)) {}

void BackwardNode::save(std::vector<at::Tensor> tensors) {
  has_hooks_ = !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
  const std::vector<bool>& is_viewed = program_->seam_->is_viewed;
  saved_.reserve(tensors.size());
  if (!has_hooks_) places_.resize(tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    saved_.emplace_back(tensors[k], /*is_output=*/false);
    if (!has_hooks_ && is_viewed[k]) places_[k] = {tensors[k].storage(), tensors[k].storage_offset()};
  }
}

bool BackwardNode::has_moved(uint32_t number, const at::Tensor& saved) const {
  if (places_.empty() || !places_[number].storage) return false;
  const auto& [storage, offset] = places_[number];
  return saved.storage().unsafeGetStorageImpl() != storage.unsafeGetStorageImpl() ||
         saved.storage_offset() != offset;
}

at::Tensor BackwardNode::in_its_memory(uint32_t number, at::Tensor saved) const {
  if (!has_moved(number, saved)) [[likely]]
    return saved;
  const Geometry& geometry = program_->saved_[number];
  const at::NoGradGuard no_history;
  const bool is_named = geometry.dtype != c10::ScalarType::Undefined;
  at::Tensor kept = at::empty(
      {0}, at::TensorOptions().dtype(is_named ? geometry.dtype : saved.scalar_type()).device(geometry.device));
  return kept.set_(places_[number].storage, places_[number].offset, geometry.sizes, geometry.strides);
}

at::Tensor BackwardNode::unpack(uint32_t number) {
  if (run_.unpacked->empty()) return in_its_memory(number, saved_[number].unpack());
  at::Tensor& kept = (*run_.unpacked)[number];
  if (!kept.defined()) kept = saved_[number].unpack();
  const bool is_read_again = !is_last_ || at::GradMode::is_enabled() || run_.unpacked == &group_.unpacked;
  return is_read_again ? kept : std::exchange(kept, {});
}

void BackwardNode::let_go(size_t number) {
  saved_[number].reset_data();
  if (!places_.empty()) places_[number] = {};
}

void BackwardNode::will_release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_last_ = true;
}

void BackwardNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_last_) all_released_ = true;  // Nothing has run: the graph is being dropped.
  const std::vector<bool> kept = kept_for_later();
  is_last_ = false;
  for (size_t k = 0; k < saved_.size(); ++k)
    if (!kept[k]) let_go(k);
  if (run_.is_whole || all_released_) inputs_.release();
  if (run_.is_whole) all_released_ = true;
  if (all_released_) group_ = {};
  if (all_released_) return;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  released_.resize(readers.size());
  for (size_t r = 0; r < readers.size(); ++r) released_[r] = released_[r] || runs(readers[r]);
}

bool BackwardNode::runs(const passes::BackwardReaders& readers) const {
  return readers.tangents.meets(run_.tangents) && readers.gradients.meets(run_.gradients);
}

void BackwardNode::check_not_released() const {
  if (!all_released_ && released_.empty()) return;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  for (size_t r = 0; r < readers.size(); ++r)
    TORCH_CHECK(!runs(readers[r]) || (!all_released_ && !released_[r]), torch::autograd::ERR_BACKWARD_TWICE);
}

std::vector<bool> BackwardNode::kept_for_later() const {
  std::vector<bool> kept(saved_.size());
  if (run_.is_whole || all_released_) return kept;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  for (size_t r = 0; r < readers.size(); ++r) {
    if (runs(readers[r]) || (!released_.empty() && released_[r])) continue;
    for (size_t k = 0; k < kept.size(); ++k) kept[k] = kept[k] || readers[r].saved[k];
  }
  return kept;
}

std::vector<at::Tensor> BackwardNode::arguments(const variable_list& tangents, std::span<const uint32_t> inputs) {
  const std::vector<bool> kept = is_last_ ? kept_for_later() : std::vector<bool>(saved_.size(), true);
  std::vector<at::Tensor> values;
  values.reserve(inputs.size());
  for (const uint32_t input : inputs) {
    if (input < saved_.size()) {
      values.push_back(unpack(input));
      if (!kept[input]) let_go(input);
      continue;
    }
    const size_t number = input - saved_.size();
    if (number >= tangents.size()) break;  // The rest is bound.
    const at::Tensor& tangent = tangents[number];
    const Geometry& expected = program_->tangents_[number];
    if (tangent.defined() && expected.matches(tangent)) {
      values.push_back(tangent);
      continue;
    }
    values.push_back(expected.allocate());
    const at::NoGradGuard no_history;
    tangent.defined() ? values.back().copy_(tangent) : values.back().zero_();
  }
  return values;
}

std::vector<at::Tensor> BackwardNode::compute(const variable_list& tangents) {
  const PartialPrograms::Part part = program_->part(run_);
  std::vector<at::Tensor> computed(part.program ? part.program->result_count() : 0);
  if (part.program) {
    std::vector<at::Tensor> given = arguments(tangents, part.of->inputs);
    if (is_last_ && !at::GradMode::is_enabled()) {
      part.program->run_consuming(given, computed.data());
    } else {
      std::vector<const at::Tensor*> pointers;
      for (const at::Tensor& argument : given) pointers.push_back(&argument);
      part.program->run(pointers.data(), computed.data());
    }
  }
  std::vector<at::Tensor> found(program_->gradient_count());
  for (size_t k = 0; k < found.size(); ++k) {
    using Kind = passes::PartialBackward::Gradient::Kind;
    const passes::PartialBackward::Gradient& gradient = part.of->gradients[k];
    if (gradient.kind == Kind::tangent) found[k] = tangents[gradient.index];
    if (gradient.kind == Kind::output) found[k] = computed[gradient.index];
  }
  return found;
}

namespace {

const at::Tensor& leaf_at(const torch::autograd::Edge& edge) {
  const auto* const takes = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
  BRAZE_CHECK(takes, "a leaf whose gradient is not accumulated");
  return takes->variable;
}

}  // namespace

/// Before this run lets go of what is saved.
BackwardNode::Again BackwardNode::again() {
  const TrainingSeam& seam = *program_->seam_;
  if (!seam.gradients.tape) return {{}, seam.gradients.no_tape};
  if (program_->backwards_->reads_what_is_written())
    return {{}, "a gradient reads a tensor from outside that the function writes to"};
  seam.is_differentiated_twice = true;
  try {
    std::vector<at::Tensor> inputs = inputs_.tensors();
    for (uint32_t k = 0; k < inputs.size(); ++k) {
      using Kind = TrainingSeam::TapeInput::Kind;
      const TrainingSeam::TapeInput& one = seam.tape_inputs[k];
      if (one.kind == Kind::constant) continue;
      if (one.kind == Kind::saved) {
        inputs[k] = run_.unpacked->empty() ? saved_[one.number].unpack() : unpack(one.number);
        if (has_moved(one.number, inputs[k]))
          throw UserError("a tensor that the function read has got other data since");
        continue;
      }
      if (!inputs[k].defined()) inputs[k] = leaf_at(next_edge(one.number));
      inputs_.check_version(k, inputs[k]);
    }
    return {std::move(inputs), {}};
  } catch (const c10::Error& error) {
    return {{}, error.what_without_backtrace()};
  } catch (const UserError& error) {
    return {{}, error.what()};
  }
}

variable_list BackwardNode::differentiable(variable_list gradients, const variable_list& tangents,
                                           const Again& again) const {
  std::vector<uint32_t> wanted;
  for (uint32_t k = 0; k < gradients.size(); ++k)
    if (gradients[k].defined()) wanted.push_back(k);
  if (wanted.empty()) return gradients;
  torch::autograd::edge_list edges = next_edges();
  for (const at::Tensor& tangent : tangents)
    if (tangent.defined() && tangent.requires_grad())
      edges.push_back(torch::autograd::impl::gradient_edge(tangent));
  const auto attach = [&](const auto& node) {
    for (const uint32_t k : wanted) {
      gradients[k] = gradients[k].detach();  // It may be a tangent, which has a history of its own.
      torch::autograd::set_history(gradients[k], node);
    }
  };
  if (again.refused.empty()) {
    const auto node =
        capture::make_node<SecondDerivative>(program_, again.inputs, inputs_.generators(), tangents, wanted);
    node->set_next_edges(std::move(edges));
    attach(node);
  } else {
    attach(capture::make_node<torch::autograd::Error>(
        concat("braze: the backward of a compiled function cannot be differentiated again (create_graph=True): ",
               again.refused,
               ". Call the function itself, without braze.compile, where second derivatives are wanted."),
        std::move(edges)));
  }
  return gradients;
}

variable_list BackwardNode::apply(variable_list&& tangents) {
  // A checkpoint unpacks each tensor once in a backward.
  Unpacked unpacked(has_hooks_ ? saved_.size() : 0);
  return apply_any(std::move(tangents), unpacked);
}

variable_list BackwardNode::apply_any(variable_list&& tangents, Unpacked& unpacked) {
  if (std::ranges::none_of(tangents, is_batched)) return apply_plain(std::move(tangents), unpacked);
  // What is saved is read again for each of them; it is let go of afterwards.
  const bool is_last = std::exchange(is_last_, false);
  variable_list gradients =
      run_along_batch(tangents, [&](variable_list row) { return apply_any(std::move(row), unpacked); });
  if (gradients.empty()) gradients.resize(num_outputs());
  is_last_ = is_last;
  return gradients;
}

variable_list BackwardNode::apply_plain(variable_list&& tangents, Unpacked& unpacked) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const capture::Gradients& gradients = program_->seam_->gradients;
  run_ = {{Bits(tangents.size()), Bits(program_->gradient_count())}, false, &unpacked};
  if (const void* group = has_hooks_ ? backward_group(c10::AutogradState::get_tls_state()) : nullptr) {
    if (group != group_.of) group_ = {group, Unpacked(saved_.size())};
    run_.unpacked = &group_.unpacked;
  }
  for (size_t t = 0; t < tangents.size(); ++t)
    if (tangents[t].defined()) run_.tangents.set(t);
  const auto is_wanted = [&](size_t k) {
    bool depends = false;
    for (size_t t = 0; t < tangents.size(); ++t) depends |= tangents[t].defined() && gradients.inputs[k].from[t];
    return depends && task_should_compute_output(k);
  };
  for (size_t k = 0; k < gradients.inputs.size(); ++k)
    if (gradients.inputs[k].kind == GradientKind::output && is_wanted(k))
      run_.gradients.set(gradients.inputs[k].index);
  run_.is_whole = run_.tangents == all(tangents.size()) && run_.gradients == all(program_->gradient_count());
  check_not_released();
  const bool is_differentiated = at::GradMode::is_enabled();
  const Again again = is_differentiated ? this->again() : Again();
  std::vector<at::Tensor> computed;
  if (run_.gradients.any()) computed = compute(tangents);
  variable_list given(gradients.inputs.size());
  for (size_t k = 0; k < given.size(); ++k)
    if (is_wanted(k))
      given[k] =
          (gradients.inputs[k].kind == GradientKind::output ? computed : tangents)[gradients.inputs[k].index];
  return is_differentiated ? differentiable(std::move(given), tangents, again) : given;
}

}  // namespace braze::runtime
