#include "runtime/autograd/training.h"

#include <ATen/ATen.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

#include "capture/autograd_node.h"
#include "capture/generator.h"
#include "capture/tape.h"
#include "capture/version_checks.h"
#include "compile/saved_layouts.h"
#include "ir/size_code.h"
#include "runtime/autograd/node.h"
#include "runtime/program_layouts.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

using capture::Gradients;
using capture::OutputRecipe;
using Result = Gradients::Result;

std::vector<TrainingSeam::TapeInput> tape_inputs(const TrainingSeam& seam) {
  using Input = TrainingSeam::TapeInput;
  std::vector<Input> inputs;
  for (const capture::Tape::Input& one : seam.tape()->inputs()) {
    inputs.push_back({one.graph_input < 0 ? Input::Kind::constant : Input::Kind::other, 0,
                      static_cast<uint32_t>(one.graph_input)});
    if (one.graph_input < 0) continue;
    for (uint32_t k = 0; k < seam.gradients.inputs.size(); ++k)
      if (seam.gradients.inputs[k].input == inputs.back().input)
        inputs.back() = {Input::Kind::gradient, k, inputs.back().input};
    for (uint32_t k = 0; k < seam.saved.size(); ++k)
      if ((seam.is_held(k) ? !seam.also_as[k] : seam.saved[k].kind == passes::Saved::Kind::input) &&
          seam.saved[k].index == inputs.back().input &&
          !seam.gradients.tape->checks()->ignores(seam.saved[k].index))
        inputs.back() = {Input::Kind::saved, k, inputs.back().input};
  }
  return inputs;
}

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

/// Of inputs of a graph, whose sizes may be expressions.
std::vector<Geometry> geometries(std::span<const ir::Input> inputs, std::span<const int64_t> symbols) {
  ir::SizeCode code;
  for (const ir::Input& input : inputs)
    for (const ir::SizeSpan& span : {input.value->type->sizes, input.value->type->strides})
      for (const ir::Size size : span.symbolic()) code.add(size);
  std::vector<int64_t> numbers(code.result_count());
  if (!code.run(symbols, numbers)) throw UserError("a size of a gradient has no value for these symbols");
  std::vector<Geometry> found;
  auto at = numbers.begin();
  for (const ir::Input& input : inputs) {
    const ir::Type& type = *input.value->type;
    std::vector<int64_t> sizes(at, at + type.rank()), strides(at + type.rank(), at + 2 * type.rank());
    at += 2 * type.rank();
    found.push_back(Geometry::of(type.dtype, device(type.device), std::move(sizes), std::move(strides)));
  }
  return found;
}

/// The elements of `like`, which lie in the memory of `base`, as a view of it that autograd differentiates.
at::Tensor view_like(const at::Tensor& base, const at::Tensor& like) {
  at::Tensor view;
  const bool is_whole = like.sizes() == base.sizes() && like.strides() == base.strides() &&
                        like.storage_offset() == base.storage_offset();
  if (like.scalar_type() == base.scalar_type() && is_whole && like.is_conj()) return base.conj();
  if (like.is_complex() == base.is_complex()) {
    view = base.as_strided(like.sizes(), like.strides(), like.storage_offset());
  } else if (base.is_complex()) {
    view = at::view_as_real(base).as_strided(like.sizes(), like.strides(), like.storage_offset());
  } else {
    std::vector<int64_t> sizes = like.sizes().vec(), strides = like.strides().vec();
    for (int64_t& stride : strides) stride *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    view = at::view_as_complex(base.as_strided(sizes, strides, 2 * like.storage_offset()));
  }
  if (like.is_conj()) view = view.conj();
  return like.is_neg() ? at::_neg_view(view) : view;
}

}  // namespace

const capture::Tape* TrainingSeam::tape() const {
  return gradients.tape && !gradients.tape->is_lost() ? gradients.tape.get() : nullptr;
}

const capture::VersionChecks* TrainingProgram::checks() const {
  const std::shared_ptr<const capture::Tape>& tape = seam_->gradients.tape;
  return tape ? tape->checks().get() : nullptr;
}

Gradients::Input::Kind TrainingSeam::kind_of(size_t gradient) const {
  return gradient < gradients.inputs.size() ? gradients.inputs[gradient].kind : Gradients::Input::Kind::output;
}

uint32_t TrainingSeam::index_of(size_t gradient) const {
  const size_t inputs = gradients.inputs.size();
  return gradient < inputs ? gradients.inputs[gradient].index : gradients.inner[gradient - inputs].output;
}

at::Tensor TrainingProgram::laid_out(const std::vector<at::Tensor>& tangents, size_t number) const {
  const at::Tensor& tangent = tangents[number];
  const Geometry& expected = tangents_[number];
  if (tangent.defined() && expected.matches(tangent)) return tangent;
  at::Tensor copy = expected.allocate();
  const at::NoGradGuard no_history;
  if (!tangent.defined()) return copy.zero_();
  // Of a lookup in a result that asks for sparse gradients: what the program makes of it is dense.
  return copy.copy_(tangent.layout() == c10::kStrided ? tangent : tangent.to_dense());
}

void TrainingProgram::count_writes(const std::vector<at::Tensor>& gradients) const {
  const capture::VersionChecks* const checks = this->checks();
  if (!checks) return;
  for (size_t k = 0; k < checks->versions.size(); ++k) {
    if (checks->versions[k] == 0 || !gradients[k].defined()) continue;
    if (this->gradients().inputs[k].kind == Gradients::Input::Kind::output)
      gradients[k].unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(checks->versions[k]));
  }
}

TrainingTraces cut(const capture::Trace& joint) {
  BRAZE_CHECK(joint.gradients, "a trace without a backward");
  auto seam = std::make_shared<TrainingSeam>();
  seam->gradients = *joint.gradients;
  const Gradients& gradients = seam->gradients;
  passes::Partition parts = passes::partition(
      {joint.graph.get(), gradients.first_backward, gradients.first_tangent, gradients.first_gradient});
  if (parts.backward && Program::Layouts::wanted() != driver::Convolutions::as_traced)
    driver::lay_out_saved(parts, gradients.first_gradient);
  seam->saved = std::move(parts.saved);
  seam->also_as = passes::saved_twice(seam->saved);
  seam->result_count = joint.outputs.size();
  seam->is_written.resize(gradients.first_tangent);
  for (const ir::Mutation& mutation : joint.graph->mutations()) seam->is_written[mutation.input] = true;
  int32_t arguments = 0;
  for (size_t k = 0; k < gradients.first_tangent; ++k) {
    const bool is_argument = joint.graph->inputs()[k].kind == ir::InputKind::argument;
    seam->argument_of.push_back(is_argument ? arguments++ : -1);
  }
  TrainingTraces traces;
  if (seam->tape()) seam->tape_inputs = tape_inputs(*seam);
  traces.forward = forward_trace(joint, std::move(parts.forward), seam->saved);
  if (gradients.tangents > 0) traces.backward = std::move(parts.backward);
  seam->gradients.first_backward = nullptr;  // Of a graph that may go.
  traces.seam = std::move(seam);
  return traces;
}

ProgramOptions forward_options(ProgramOptions options) {
  options.spares_memory = true;
  return options;
}

ProgramOptions backward_options(const ProgramOptions& options) {
  ProgramOptions backward = forward_options(options);
  backward.example_arguments.clear();
  backward.kept_elsewhere.clear();
  backward.prepack_weights = false;
  return backward;
}

void compile_likely(const PartialPrograms& backwards, std::span<const int64_t> symbols, PhaseTimes& times) {
  const PartialPrograms::Part part = backwards.at(backwards.likely(), symbols);
  if (!part.program) return;
  for (const PhaseTimes::Row& row : part.program->facts().times.rows())
    times.add(row.name.c_str(), row.nanoseconds, row.allocations);
}

TrainingProgram::TrainingProgram(std::shared_ptr<const TrainingSeam> seam, std::shared_ptr<Program> forward,
                                 std::shared_ptr<const PartialPrograms> backwards, std::span<const int64_t> symbols)
    : seam_(std::move(seam)),
      forward_(std::move(forward)),
      backwards_(std::move(backwards)),
      symbols_(symbols.begin(), symbols.end()) {
  if (!backwards_->whole()) return;
  likely_ = backwards_->at(backwards_->likely(), symbols_);
  const std::span<const ir::Input> inputs(backwards_->whole()->inputs());
  saved_ = geometries(inputs.first(seam_->saved.size()), symbols_);
  for (size_t k = 0; k < saved_.size(); ++k)
    if (seam_->saved[k].kind == passes::Saved::Kind::output)
      saved_bytes_ += saved_[k].numel * ir::byte_size(inputs[k].value->type->dtype);
  tangents_ = geometries(inputs.subspan(saved_.size(), seam_->gradients.tangents), symbols_);
}

std::shared_ptr<const TrainingProgram> TrainingProgram::compile(capture::Trace trace, const ProgramOptions& options,
                                                                PhaseTimes times) {
  std::optional<TrainingTraces> traces;
  {
    PhaseTimer timer(&times, "partition");
    traces = cut(trace);
  }
  const auto backwards = std::make_shared<const PartialPrograms>(trace, std::move(traces->backward),
                                                                 traces->seam->saved, backward_options(options));
  if (backwards->whole()) compile_likely(*backwards, {}, times);
  auto forward = Program::compile(std::move(traces->forward), forward_options(options), std::move(times));
  return std::make_shared<const TrainingProgram>(traces->seam, std::move(forward), backwards,
                                                 std::span<const int64_t>());
}

PartialPrograms::Part TrainingProgram::part(const PartialPrograms::Pattern& pattern) const {
  return pattern == backwards_->likely() ? likely_ : backwards_->at(pattern, symbols_);
}

const at::Tensor& TrainingProgram::input(uint32_t number, const at::Tensor* const* arguments) const {
  return seam_->argument_of[number] < 0 ? forward_->trace().bound[number] : *arguments[seam_->argument_of[number]];
}

at::Tensor TrainingProgram::saved_tensor(const passes::Saved& saved, const at::Tensor* const* arguments,
                                         const std::vector<at::Tensor>& results) const {
  switch (saved.kind) {
    case passes::Saved::Kind::input:
    case passes::Saved::Kind::held: return input(saved.index, arguments);
    // The tensor itself will have the node that saves it for its history.
    case passes::Saved::Kind::written: return input(saved.index, arguments).detach();
    // Hooks may keep it, which must not keep the node that keeps them: it will be the history of the tensor itself.
    case passes::Saved::Kind::output:
      return at::SavedTensorDefaultHooks::get_tls_state().stack.empty() ? results[saved.index]
                                                                        : results[saved.index].detach();
  }
  return {};
}

ForwardInputs TrainingProgram::forward_inputs(const at::Tensor* const* arguments,
                                              capture::GeneratorStates generators) const {
  using Kind = TrainingSeam::TapeInput::Kind;
  ForwardInputs inputs(seam_->tape_inputs.size(), std::move(generators));
  for (uint32_t k = 0; k < seam_->tape_inputs.size(); ++k) {
    const TrainingSeam::TapeInput& one = seam_->tape_inputs[k];
    if (one.kind == Kind::constant || one.kind == Kind::saved) continue;
    const at::Tensor& tensor = input(one.input, arguments);
    inputs.note_version(k, tensor);
    // Among several nodes that which takes a leaf may go before the others.
    if (one.kind == Kind::gradient && tensor.is_leaf() && seam_->has_one_node()) continue;
    inputs.add(k, tensor, seam_->is_differentiated_twice);
  }
  return inputs;
}

namespace {

/// A result that is a view of another tensor, and has a history of its own all the same, is one of an
/// autograd.Function: what eager does not allow with such views is not allowed here.
void set_history(const at::Tensor& result, torch::autograd::Edge edge) {
  torch::autograd::impl::set_gradient_edge(result, std::move(edge));
  if (result.is_view())
    torch::autograd::impl::get_view_autograd_meta(result)->set_creation_meta(
        torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
}

/// None where a generator's may not be asked for: while the stream of its device is captured.
capture::GeneratorStates states_of(const std::vector<at::Generator>& generators) {
  try {
    return capture::GeneratorStates(generators);
  } catch (const c10::Error&) {
    return {};
  }
}

}  // namespace

void TrainingProgram::run(const at::Tensor* const* arguments, at::Tensor* results) const {
  const Gradients& gradients = seam_->gradients;
  std::vector<at::Tensor> all(forward_->result_count());
  capture::GeneratorStates generators;
  if (tape()) generators = states_of(tape()->generators());
  forward_->run(arguments, all.data());
  const at::AutoGradMode gradients_on(true);
  decltype(capture::make_node<BackwardNode>(shared_from_this())) node;
  std::vector<bool> is_made(seam_->result_count);
  // A view may be one of another result that is a view: that is made first.
  const auto view_of_base = [&](Result result) {
    while (result.kind == Result::Kind::view_of_other && gradients.results[result.index].kind != Result::Kind::root)
      result = gradients.results[result.index];
    return result;
  };
  const auto make_view = [&](const auto& self, uint32_t r) -> void {
    const Result& result = gradients.results[r];
    const bool is_of_input = result.kind == Result::Kind::view_of_input;
    if (!is_of_input && gradients.results[result.index].kind != Result::Kind::root && !is_made[result.index])
      self(self, result.index);
    is_made[r] = true;
    const at::Tensor& base = is_of_input ? input(result.index, arguments) : all[result.index];
    using torch::autograd::CreationMeta;
    const CreationMeta creation = forward_->trace().outputs[r].creation;
    const at::AutoGradMode as_made(creation != CreationMeta::NO_GRAD_MODE);
    all[r] = view_like(base, all[r]);
    torch::autograd::impl::get_view_autograd_meta(all[r])->set_creation_meta(creation);
    if (node) node->note_view(r, all[r]);
  };
  const auto make_views = [&](const auto& has_its_history) {
    for (uint32_t r = 0; r < seam_->result_count; ++r) {
      const Result& result = gradients.results[r];
      const bool is_view = result.kind == Result::Kind::view_of_input || result.kind == Result::Kind::view_of_other;
      if (is_view && !is_made[r] && has_its_history(view_of_base(result))) make_view(make_view, r);
    }
  };
  if (backwards_->whole()) {
    torch::autograd::edge_list edges;
    for (const Gradients::Input& one : gradients.inputs)
      edges.push_back(torch::autograd::impl::gradient_edge(input(one.input, arguments)));
    node = capture::make_node<BackwardNode>(shared_from_this());
    std::vector<at::Tensor> roots(gradients.tangents);
    for (size_t r = 0; r < gradients.results.size(); ++r)
      if (gradients.results[r].kind == Result::Kind::root) roots[gradients.results[r].index] = all[r];
    std::vector<bool> is_written(roots.size());
    for (const Gradients::Written& one : gradients.written) {
      roots[one.tangent] = input(one.input, arguments);
      is_written[one.tangent] = roots[one.tangent].requires_grad();
    }
    node->connect(std::move(edges), roots);
    std::vector<at::Tensor> saved;
    for (const passes::Saved& one : seam_->saved) saved.push_back(saved_tensor(one, arguments, all));
    node->save(std::move(saved));
    if (tape()) node->remember(forward_inputs(arguments, std::move(generators)));
    const auto is_of = [&](const Result& view, uint32_t root) {
      if (view.kind == Result::Kind::view_of_other) return gradients.results[view.index].index == root;
      const auto is_its = [&](const Gradients::Written& one) {
        return one.input == view.index && (root == Gradients::Inner::none || one.tangent == root);
      };
      return std::ranges::any_of(gradients.written, is_its);
    };
    make_views([&](const Result& view) {
      return view.kind == Result::Kind::view_of_input && !is_of(view, Gradients::Inner::none);
    });
    for (const uint32_t k : gradients.root_order) {
      torch::autograd::Edge history = node->history_of(k, roots[k]);
      if (is_written[k])
        torch::autograd::impl::rebase_history(roots[k], std::move(history));
      else
        set_history(roots[k], std::move(history));
      make_views([&](const Result& view) { return is_of(view, k); });
    }
  }
  make_views([](const Result&) { return true; });
  if (node) node->watch(arguments, all);
  for (size_t r = 0; r < seam_->result_count; ++r) results[r] = std::move(all[r]);
}

}  // namespace braze::runtime
