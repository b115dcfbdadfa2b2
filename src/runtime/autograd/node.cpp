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
#include "capture/engine_order.h"
#include "capture/tape.h"
#include "runtime/autograd/batched.h"
#include "runtime/autograd/node_rest.h"
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

Bits all(size_t size, size_t count) {
  Bits bits(size);
  for (size_t k = 0; k < count; ++k) bits.set(k);
  return bits;
}

/// Before the backward ends: an optimizer that steps, or a reducer that sends it to other processes.
bool waits(const torch::autograd::Edge& edge) {
  const torch::autograd::Node& node = *edge.function;
  return !node.post_hooks().empty() || node.tensor_post_acc_grad_hooks();
}

/// Of all tangents, where it is one.
std::optional<c10::Device> only_device(const std::vector<Geometry>& tangents) {
  const auto is_elsewhere = [&](const Geometry& one) { return one.device != tangents[0].device; };
  if (tangents.empty() || std::ranges::any_of(tangents, is_elsewhere)) return std::nullopt;
  return tangents[0].device;
}

/// The last stage that reads a saved value, or checks its version. \param also_as  TrainingSeam's.
uint32_t last_stage(const StagedPrograms& stages, const std::vector<std::optional<uint32_t>>& also_as,
                    uint32_t saved) {
  const bool is_twice = saved > 0 && also_as[saved - 1] == saved;
  return std::max(stages.last_reader(saved), is_twice ? stages.last_reader(saved - 1) : 0);
}

}  // namespace

/// Gives what a later stage has computed.
class LaterGradients final : public torch::autograd::Node {
 public:
  /// \param device  of the parcels: the engine runs a node on its input's device, and on the stream that is current
  /// now.
  /// \param owner   leads to the BackwardNode, unless that one owns this one.
  LaterGradients(uint32_t stage, c10::Device device, torch::autograd::Edge owner)
      : stage_(stage), owner_(std::move(owner)) {
    add_input_metadata(at::empty({0}, at::TensorOptions(at::kFloat).device(device)));
  }
  LaterGradients(const LaterGradients&) = delete;
  LaterGradients& operator=(const LaterGradients&) = delete;
  ~LaterGradients() override {
    if (owner_.is_valid()) forget(static_cast<BackwardNode&>(*owner_.function).nodes_, stage_);
  }
  std::string name() const override { return "BrazeBackward"; }

 protected:
  variable_list apply(variable_list&& parcels) override {
    if (!parcels[0].defined()) return variable_list(num_outputs());
    const std::shared_ptr<BackwardNode::Rest> rest = content_of<BackwardNode::Rest>(parcels[0]);
    parcels.clear();
    auto& first = static_cast<BackwardNode&>(*rest->owner[0].function);
    if (!rest->is_in_stages) return first.share(stage_, rest->gradients, rest);
    variable_list gradients = first.run_stage(stage_, *rest);
    return first.share(stage_, gradients, rest);
  }

 private:
  const uint32_t stage_;
  const torch::autograd::Edge owner_;
};

BackwardNode::BackwardNode(std::shared_ptr<const TrainingProgram> program)
    : program_(std::move(program)), nodes_{this} {}

void BackwardNode::connect(torch::autograd::edge_list edges, const std::vector<at::Tensor>& roots) {
  const std::optional<c10::Device> device = only_device(program_->tangents_);
  if (device && std::ranges::any_of(edges, waits)) staged_ = program_->backwards_->staged();
  if (program_->seam_->has_one_node()) {
    for (const at::Tensor& root : roots) add_input_metadata(root);
    set_next_edges(staged_ ? connect_stages(std::move(edges), *device, {}) : std::move(edges));
    return;
  }
  connect_results(std::move(edges));
  make_groups(roots[0].device());
}

torch::autograd::edge_list BackwardNode::connect_stages(torch::autograd::edge_list edges, c10::Device device,
                                                        const torch::autograd::Edge& owner) {
  for (const StagedPrograms::Gradient& one : staged_->gradients()) node_of_.push_back(one.stage);
  std::vector<torch::autograd::edge_list> by_stage = divide(std::move(edges), staged_->size());
  // The last one first: nodes know how long the way behind them is.
  nodes_.resize(staged_->size());
  for (uint32_t stage = static_cast<uint32_t>(nodes_.size()) - 1; stage > 0; --stage) {
    const auto node = capture::make_node<LaterGradients>(stage, device, owner);
    nodes_[stage] = node.get();
    node->set_next_edges(std::move(by_stage[stage]));
    by_stage[stage - 1].emplace_back(node, 0);
  }
  return std::move(by_stage[0]);
}

const torch::autograd::Edge& BackwardNode::edge(size_t gradient) const {
  static const torch::autograd::Edge none;
  if (node_of_.empty()) return next_edge(gradient);
  const torch::autograd::Node* const of = alive(nodes_, node_of_[gradient]);
  return of ? of->next_edge(edge_of_[gradient]) : none;
}

void BackwardNode::save(std::vector<at::Tensor> tensors) {
  has_hooks_ = !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
  const TrainingSeam& seam = *program_->seam_;
  saved_.reserve(tensors.size());
  if (!has_hooks_) places_ = SavedPlaces(tensors.size());
  const capture::VersionChecks* const checks = program_->checks();
  for (size_t k = 0; k < tensors.size(); ++k) {
    // `x.data` is what eager saves: x may be written to, and the backward sees it.
    const passes::Saved& saved = seam.saved[k];
    const bool is_input = saved.kind == passes::Saved::Kind::input || saved.kind == passes::Saved::Kind::held;
    if (is_input && checks && checks->ignores(saved.index)) tensors[k] = tensors[k].variable_data();
    saved_.emplace_back(seam.also_as[k] ? at::Tensor() : tensors[k], /*is_output=*/false);
    if (!has_hooks_ && seam.is_held(k)) places_.note(k, tensors[k]);
  }
}

at::Tensor BackwardNode::unpack(uint32_t number) {
  if (run_.unpacked->empty()) {
    const std::optional<uint32_t> other = program_->seam_->also_as[number];  // It comes later, and is there still.
    return places_.in_its_memory(number, saved_[other.value_or(number)].unpack(), program_->saved_[number]);
  }
  at::Tensor& kept = (*run_.unpacked)[number];
  if (!kept.defined()) kept = saved_[number].unpack();
  const bool is_read_again =
      !is_last_ || at::GradMode::is_enabled() || run_.is_parted || run_.unpacked == &group_.unpacked;
  return is_read_again ? kept : std::exchange(kept, {});
}

bool BackwardNode::are_apart(std::span<const uint32_t> inputs) const {
  if (places_.empty()) return false;
  const std::vector<std::optional<uint32_t>>& also_as = program_->seam_->also_as;
  return std::ranges::any_of(inputs, [&](uint32_t input) {
    const bool is_twice = input > 0 && input < saved_.size() && also_as[input - 1] == input;
    return is_twice && places_.has_moved(input - 1, saved_[input].unpack());
  });
}

void BackwardNode::let_go(size_t number) {
  saved_[number].reset_data();
  places_.forget(number);
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
  for (uint32_t k = 0; k < saved_.size(); ++k)
    if (!kept[k] && !(leaves_saved_ && last_stage(*staged_, program_->seam_->also_as, k) > 0)) let_go(k);
  leaves_saved_ = false;
  if (run_.is_whole || all_released_) inputs_.release();
  if (run_.is_whole) all_released_ = true;
  if (all_released_) group_ = {};
  if (all_released_) return;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  released_.resize(readers.size());
  for (size_t r = 0; r < readers.size(); ++r) released_[r] = released_[r] || run_.meets(readers[r]);
}

void BackwardNode::check_not_released() const {
  if (!all_released_ && released_.empty()) return;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  for (size_t r = 0; r < readers.size(); ++r)
    TORCH_CHECK(!run_.meets(readers[r]) || (!all_released_ && !released_[r]), torch::autograd::ERR_BACKWARD_TWICE);
}

std::vector<bool> BackwardNode::kept_for_later() const {
  std::vector<bool> kept(saved_.size());
  if (run_.is_whole || all_released_) return kept;
  const std::vector<passes::BackwardReaders>& readers = program_->backwards_->readers();
  for (size_t r = 0; r < readers.size(); ++r) {
    if (run_.meets(readers[r]) || (!released_.empty() && released_[r])) continue;
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
    values.push_back(program_->laid_out(tangents, number));
  }
  return values;
}

std::vector<at::Tensor> BackwardNode::compute(const variable_list& tangents) {
  PartialPrograms::Part part = program_->part(run_);
  if (are_apart(part.of->inputs)) {
    run_.is_apart = true;
    part = program_->part(run_);
  }
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
  if (!edge.is_valid()) throw UserError("a tensor that the function was given is gone");
  const auto* const takes = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
  BRAZE_CHECK(takes, "a leaf whose gradient is not accumulated");
  return takes->variable;
}

}  // namespace

/// Before this run lets go of what is saved.
BackwardNode::Again BackwardNode::again() {
  const TrainingSeam& seam = *program_->seam_;
  if (!seam.tape()) {
    const std::string& why = seam.gradients.no_tape;
    return {{}, why.empty() ? "gradients were not recorded where its graph began" : why};
  }
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
        const bool is_twice = one.number > 0 && seam.also_as[one.number - 1] == one.number;
        if (places_.has_moved(is_twice ? one.number - 1 : one.number, inputs[k]))
          throw UserError("a tensor that the function read has got other data since");
        continue;
      }
      if (!inputs[k].defined()) inputs[k] = leaf_at(edge(one.number));
      inputs_.check_version(k, inputs[k]);
    }
    return {std::move(inputs), {}};
  } catch (const c10::Error& error) {
    return {{}, error.what_without_backtrace()};
  } catch (const UserError& error) {
    return {{}, error.what()};
  }
}

std::vector<bool> BackwardNode::histories(const variable_list& tangents, const Again& again) const {
  std::vector<bool> all(program_->seam_->asked_for() + program_->gradients().inner.size(), true);
  if (!again.refused.empty()) return all;
  std::vector<bool> key{run_.is_parted};
  for (const at::Tensor& tangent : tangents)
    key.insert(key.end(), {tangent.defined(), tangent.defined() && tangent.requires_grad()});
  TrainingSeam::Histories& histories = program_->seam_->histories;
  {
    const std::lock_guard<std::mutex> lock(histories.mutex);
    if (const auto found = histories.known.find(key); found != histories.known.end()) return found->second;
  }
  try {
    all = find_histories(*program_, again.inputs, tangents, inputs_.generators(), run_.is_parted);
  } catch (const std::exception&) {
    // Whoever goes through them learns of it.
  }
  const std::lock_guard<std::mutex> lock(histories.mutex);
  return histories.known.try_emplace(std::move(key), std::move(all)).first->second;
}

variable_list BackwardNode::differentiable(variable_list gradients, const variable_list& tangents,
                                           const Again& again) const {
  const std::vector<bool> have_history = histories(tangents, again);
  std::vector<uint32_t> wanted;
  for (uint32_t k = 0; k < gradients.size(); ++k) {
    if (gradients[k].defined() && !have_history[k]) gradients[k] = gradients[k].detach();
    if (gradients[k].defined() && have_history[k]) wanted.push_back(k);
  }
  if (wanted.empty()) return gradients;
  torch::autograd::edge_list edges;
  for (size_t k = 0; k < program_->gradients().inputs.size(); ++k) edges.push_back(edge(k));
  std::optional<std::vector<uint32_t>> inner;
  if (run_.is_parted) inner.emplace();
  for (uint32_t k = 0; inner && k < program_->gradients().inner.size(); ++k) {
    const uint32_t root = program_->gradients().inner[k].tangent;
    auto* const entry = root < entries_.size() ? alive(entries_, root) : nullptr;
    if (!entry || !have_history[gradients.size() + k]) continue;
    inner->push_back(k);
    edges.emplace_back(const_cast<torch::autograd::Node*>(entry)->getptr(), 0);
  }
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
    const auto node = capture::make_node<SecondDerivative>(program_, again.inputs, inputs_.generators(), tangents,
                                                           wanted, std::move(inner));
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
  if (!staged_) return apply_any(std::move(tangents), unpacked);
  const auto rest = std::make_shared<Rest>();
  rest->owner.emplace_back(getptr(), 0);
  rest->is_in_stages = runs_in_stages(tangents);
  if (rest->is_in_stages) {
    rest->tangents = std::move(tangents);
    return run_first_stage(rest);
  }
  rest->gradients = apply_any(std::move(tangents), unpacked);
  return share(0, rest->gradients, rest);
}

variable_list BackwardNode::run_first_stage(const std::shared_ptr<Rest>& rest) {
  rest->kept = is_last_ ? kept_for_later() : std::vector<bool>(saved_.size(), true);
  variable_list gradients = run_stage(0, *rest);
  leaves_saved_ = is_last_;
  return share(0, gradients, rest);
}

bool BackwardNode::runs_in_stages(const variable_list& tangents) {
  if (has_hooks_ || at::GradMode::is_enabled() || std::ranges::any_of(tangents, is_batched)) return false;
  if (!capture::difference(late_values_).empty()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  begin(tangents);
  // An error comes between gradients.
  return !versions_.any_is_modified() &&
         static_cast<const PartialPrograms::Pattern&>(run_) == program_->backwards_->likely();
}

variable_list BackwardNode::run_stage(uint32_t number, Rest& rest) {
  const StagedPrograms::Stage& stage = (*staged_)[number];
  const std::shared_ptr<Program> program = staged_->at(number, program_->symbols());
  const size_t inputs = program_->backwards_->whole()->inputs().size();
  const std::vector<std::optional<uint32_t>>& also_as = program_->seam_->also_as;
  std::vector<at::Tensor> given;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const uint32_t input : stage.inputs) {
      if (input >= inputs)
        given.push_back(rest.handed_on[input - inputs]);
      else if (input < saved_.size())
        given.push_back(
            places_.in_its_memory(input, saved_[also_as[input].value_or(input)].unpack(), program_->saved_[input]));
      else if (input - saved_.size() < rest.tangents.size())
        given.push_back(program_->laid_out(rest.tangents, input - saved_.size()));
    }
    for (uint32_t k = 0; k < saved_.size(); ++k)
      if (!rest.kept[k] && last_stage(*staged_, also_as, k) == number) let_go(k);
  }
  for (const uint32_t input : stage.inputs)
    if (input >= inputs && staged_->last_reader(input) == number) rest.handed_on[input - inputs].reset();
  std::vector<at::Tensor> computed(program->result_count());
  program->run_consuming(given, computed.data());

  for (size_t k = 0; k < stage.handed_on.size(); ++k) {
    rest.handed_on.resize(std::max(rest.handed_on.size(), stage.handed_on[k] - inputs + 1));
    rest.handed_on[stage.handed_on[k] - inputs] = std::move(computed[stage.gradients + k]);
  }
  variable_list gradients(staged_->gradients().size());
  for (size_t k = 0; k < gradients.size(); ++k) {
    using Kind = passes::PartialBackward::Gradient::Kind;
    const StagedPrograms::Gradient& from = staged_->gradients()[k];
    if (from.stage != number || from.kind == Kind::none || !is_wanted(k, rest.tangents)) continue;
    gradients[k] = (from.kind == Kind::tangent ? rest.tangents : computed)[from.index];
  }
  program_->count_writes(gradients);
  return gradients;
}

variable_list BackwardNode::share(uint32_t stage, variable_list& gradients,
                                  const std::shared_ptr<Rest>& rest) const {
  const bool goes_on = staged_ && stage + 1 < staged_->size();
  variable_list given(alive(nodes_, stage)->num_outputs() - (goes_on ? 1 : 0));
  for (size_t k = 0; k < node_of_.size(); ++k)
    if (node_of_[k] == stage) given[edge_of_[k]] = std::move(gradients[k]);
  if (goes_on) given.push_back(parcel(rest, program_->tangents_[0].device));
  return given;
}

bool BackwardNode::is_wanted(size_t gradient, const variable_list& tangents) const {
  const size_t inputs = program_->gradients().inputs.size();
  if (only_.inner)
    return gradient >= inputs && std::ranges::find(*only_.inner, gradient - inputs) != only_.inner->end();
  if (gradient >= inputs) return false;
  const std::vector<bool>& from = program_->gradients().inputs[gradient].from;
  bool depends = false;
  for (size_t t = 0; t < tangents.size(); ++t) depends |= tangents[t].defined() && from[t];
  if (!depends) return false;
  if (node_of_.empty()) return task_should_compute_output(gradient);
  if (only_.group && node_of_[gradient] != *only_.group) return false;
  const torch::autograd::Node* const of = alive(nodes_, node_of_[gradient]);
  return of && of->task_should_compute_output(edge_of_[gradient]);
}

void BackwardNode::begin(const variable_list& tangents) {
  run_ = {};
  run_.tangents = Bits(tangents.size());
  run_.gradients = Bits(program_->gradient_count());
  run_.is_parted = only_.is_parted;
  for (size_t t = 0; t < tangents.size(); ++t)
    if (tangents[t].defined()) run_.tangents.set(t);
  Bits wanted(program_->seam_->asked_for());
  for (size_t k = 0; k < program_->seam_->asked_for(); ++k) {
    if (!is_wanted(k, tangents)) continue;
    wanted.set(k);
    if (program_->seam_->kind_of(k) == GradientKind::output) run_.gradients.set(program_->seam_->index_of(k));
  }
  const size_t inner = program_->gradients().inner.size();
  run_.is_whole = !run_.is_parted && run_.tangents == all(tangents.size(), tangents.size()) &&
                  run_.gradients == all(program_->gradient_count(), program_->gradient_count() - inner);
  run_.find_way(program_->gradients(), wanted);
  check_not_released();
}

void BackwardNode::Run::find_way(const capture::Gradients& joint, const Bits& wanted) {
  came = tangents;
  led = gradients;
  if (is_parted) return;
  for (size_t round = 0; round < joint.inner.size(); ++round) {
    const Bits before = came;
    for (const capture::Gradients::Inner& one : joint.inner)
      if (one.tangent != one.none && std::ranges::any_of(one.directly, [&](uint32_t from) { return came[from]; }))
        came.set(one.tangent);
    if (came == before) break;
  }
  for (const capture::Gradients::Inner& one : joint.inner)
    for (size_t k = 0; k < one.leads_to.size() && !led[one.output]; ++k)
      if (wanted[k] && one.leads_to[k]) led.set(one.output);
}

variable_list BackwardNode::apply_any(variable_list&& tangents, Unpacked& unpacked) {
  if (std::ranges::none_of(tangents, is_batched)) return apply_plain(std::move(tangents), unpacked);
  // What is saved is read again for each of them; it is let go of afterwards.
  const bool is_last = std::exchange(is_last_, false);
  variable_list gradients =
      run_along_batch(tangents, [&](variable_list row) { return apply_any(std::move(row), unpacked); });
  if (gradients.empty()) gradients.resize(program_->seam_->asked_for());
  is_last_ = is_last;
  return gradients;
}

variable_list BackwardNode::apply_plain(variable_list&& tangents, Unpacked& unpacked) {
  const std::string changed = capture::difference(late_values_);
  std::unique_lock<std::mutex> lock(mutex_);
  begin(tangents);
  TORCH_CHECK(changed.empty(), changed);
  run_.unpacked = &unpacked;
  check_versions(tangents, lock);
  if (const void* group = has_hooks_ ? backward_group(c10::AutogradState::get_tls_state()) : nullptr) {
    if (group != group_.of) group_ = {group, Unpacked(saved_.size())};
    run_.unpacked = &group_.unpacked;
  }
  const bool is_differentiated = at::GradMode::is_enabled();
  const auto& inner = program_->gradients().inner;
  Again again;
  if (is_differentiated && run_.is_parted && std::ranges::any_of(inner, &capture::Gradients::Inner::is_view))
    again.refused = "what comes to a result, a view, by another one is seen by a hook, or asked for";
  else if (is_differentiated)
    again = this->again();
  std::vector<at::Tensor> computed;
  if (run_.gradients.any()) computed = compute(tangents);
  variable_list given(program_->seam_->asked_for());
  for (size_t k = 0; k < given.size(); ++k)
    if (is_wanted(k, tangents))
      given[k] =
          (program_->seam_->kind_of(k) == GradientKind::output ? computed : tangents)[program_->seam_->index_of(k)];
  program_->count_writes(given);
  return is_differentiated ? differentiable(std::move(given), tangents, again) : given;
}

}  // namespace braze::runtime
