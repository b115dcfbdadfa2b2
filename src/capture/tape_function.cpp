#include "capture/tape_function.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "capture/autograd_node.h"
#include "capture/linear_calls.h"
#include "capture/traced_function.h"
#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Function = Tape::Function;

// ---- recording

void TapeRecorder::begin_function(const std::vector<at::Tensor>& tangents) {
  if (!lost_.empty()) return;
  if (!can_be_lost_) return lose("a function has a gradient of its own");
  Open open{tape_.part_.calls.size(), tape_.part_.functions.size(), before_forward_, {}};
  for (const at::Tensor& tangent : tangents) open.tangents.push_back(set_number(tangent, tape_.tensor_count_++));
  open_.push_back(std::move(open));
}

namespace {

/// Throws where a gradient of the function's may not be linear in those of its outputs: then what it gives for two
/// gradients, one after the other, is not what it gives for their sum, and a compiled function may be asked for
/// both (SecondDerivative, and the node of the first derivatives).
void check_is_linear(const Function& function) {
  std::vector<bool> depends(function.tensor_count);
  for (const uint32_t tangent : function.tangents) depends[tangent] = true;
  auto next = function.backward.functions.begin();
  const auto join = [&](size_t before) {
    for (; next != function.backward.functions.end() && (*next)->before <= before; ++next)
      for (size_t k = 0; k < (*next)->outputs.size(); ++k)
        depends[(*next)->joined[k]] = depends[(*next)->outputs[k]];
  };
  for (size_t c = 0; c < function.backward.calls.size(); ++c) {
    join(c);
    const Tape::Call& call = function.backward.calls[c];
    if (call.op.schema().name() == "aten::detach")
      throw UserError("a function has a gradient of its own whose code detaches a tensor");
    std::vector<bool> given;
    for (const CallPayload::Slot& slot : call.slots) given.push_back(depends[slot.operand]);
    const bool is_zero = gives_zeros(call), any = std::ranges::find(given, true) != given.end();
    if (!is_zero && any && !is_linear(call, given))
      throw UserError(concat("a function has a gradient of its own (", function.name,
                             ") that is not known to be linear (", call.op.schema().name(), ")"));
    for (const Tape::Result& result : call.results) depends[result.tensor] = any || is_zero;
    for (const uint32_t written : call.written) depends[written] = any || is_zero;
  }
  join(function.backward.calls.size());
  for (const int64_t gradient : function.gradients)
    if (gradient >= 0 && !depends[static_cast<size_t>(gradient)])
      throw UserError(concat("a function has a gradient of its own (", function.name,
                             ") that does not depend on that of its results"));
}

}  // namespace

std::shared_ptr<Function> TapeRecorder::function_of(const FunctionCall& call, const std::vector<at::Tensor>& joined,
                                                    uint32_t old) {
  auto function = std::make_shared<Function>();
  function->name = call.name;
  function->is_once = call.is_once;
  const auto is_among = [](const at::Tensor& tensor, const std::vector<at::Tensor>& list) {
    return std::ranges::any_of(list, [&](const at::Tensor& one) { return one.is_same(tensor); });
  };
  for (const at::Tensor& input : call.inputs) {
    function->inputs.push_back(number_of(input));
    function->is_dirty.push_back(is_among(input, call.dirty));
    const uint32_t number = function->inputs.back();
    const bool is_input = std::ranges::find(tape_.inputs_, number, &Tape::Input::tensor) != tape_.inputs_.end();
    const bool is_made_within = !open_.empty() && number >= open_.front().tensors && !is_input;
    function->is_dropped.push_back(!has_history(input) && !is_made_within);
  }
  for (size_t k = 0; k < joined.size(); ++k) {
    const at::Tensor& output = call.outputs[k];
    function->outputs.push_back(number_of(output));
    function->is_constant.push_back(is_among(output, call.constants));
    const TracerTensor* const tracer = as_tracer(joined[k]);
    const bool is_known = !tracer || views_.contains(tracer->view().get());
    function->joined.push_back(is_known ? number_of(joined[k]) : set_number(joined[k], tape_.tensor_count_++));
    if (function->joined.back() < old && !is_among(output, call.dirty))
      throw UserError("a function with a gradient of its own returns what was there before");
  }
  return function;
}

void TapeRecorder::end_function(const FunctionCall& call, const std::vector<at::Tensor>& joined) {
  is_in_backward_ = true;
  if (!lost_.empty()) return;
  try {
    const Open open = std::move(open_.back());
    open_.pop_back();
    const std::shared_ptr<Function> function = function_of(call, joined, open.tensors);
    function->tangents = open.tangents;
    std::vector<bool> is_own(tape_.tensor_count_);
    for (const uint32_t tangent : open.tangents) is_own[tangent] = true;
    const auto read = [&](uint32_t tensor) {
      if (!is_own[tensor]) function->reads.push_back(tensor);
      is_own[tensor] = true;
    };
    Tape::Part& all = tape_.part_;
    Tape::Part& backward = function->backward;
    const auto first = all.calls.begin() + static_cast<ptrdiff_t>(open.calls);
    backward.calls.assign(std::make_move_iterator(first), std::make_move_iterator(all.calls.end()));
    all.calls.erase(first, all.calls.end());
    const auto nested = all.functions.begin() + static_cast<ptrdiff_t>(open.functions);
    for (auto one = nested; one != all.functions.end(); ++one) {
      auto moved = std::make_shared<Function>(**one);
      moved->before -= open.calls;
      backward.functions.push_back(std::move(moved));
    }
    all.functions.erase(nested, all.functions.end());
    // In the order of the run, so that what is made in the backward is known before it is read.
    auto next = backward.functions.begin();
    const auto pass_functions = [&](size_t before) {
      for (; next != backward.functions.end() && (*next)->before <= before; ++next) {
        for (const auto* list : {&(*next)->inputs, &(*next)->outputs, &(*next)->reads})
          std::ranges::for_each(*list, read);
        for (const uint32_t tensor : (*next)->joined) is_own[tensor] = true;
      }
    };
    for (size_t c = 0; c < backward.calls.size(); ++c) {
      pass_functions(c);
      for (const CallPayload::Slot& slot : backward.calls[c].slots) read(slot.operand);
      for (const Tape::Result& result : backward.calls[c].results) is_own[result.tensor] = true;
    }
    pass_functions(backward.calls.size());
    for (const at::Tensor& gradient : call.gradients) {
      function->gradients.push_back(gradient.defined() ? int64_t{number_of(gradient)} : -1);
      if (!gradient.defined()) continue;
      is_own.resize(tape_.tensor_count_);
      read(static_cast<uint32_t>(function->gradients.back()));
    }
    function->tensor_count = tape_.tensor_count_;
    function->before = all.calls.size();
    check_is_linear(*function);
    all.functions.push_back(function);
  } catch (const UserError& error) {
    lose(error.what());
  }
}

void TapeRecorder::add_bare_function(const FunctionCall& call) {
  is_in_backward_ = true;
  if (!lost_.empty()) return;
  try {
    const std::shared_ptr<Function> function = function_of(call, call.outputs, before_forward_);
    function->is_bare = true;
    function->tensor_count = tape_.tensor_count_;
    function->before = tape_.part_.calls.size();
    tape_.part_.functions.push_back(function);
  } catch (const UserError& error) {
    lose(error.what());
  }
}

void TapeRecorder::note_grad_mode() {
  if (!open_.empty() && is_in_backward_)
    lose("a function has a gradient of its own whose code asks for the grad mode, or sets it");
}

void TapeRecorder::note_detached() {
  if (!open_.empty() && is_in_backward_) lose("a function has a gradient of its own whose code detaches a tensor");
}

// ---- replaying

/// The history of what a function gave.
class TapeFunction final : public torch::autograd::Node {
 public:
  TapeFunction(std::shared_ptr<const Function> function, const Tape::Run& run)
      : function_(std::move(function)), sizes_(run.sizes) {}

  /// When the outputs have their history.
  void save(const Tape::Run& run) {
    for (const uint32_t output : function_->joined) {
      const at::Tensor& tensor = run.tensors[output];
      const bool is_dense = tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
      strides_.push_back(is_dense ? tensor.strides().vec()
                                  : at::infer_dense_strides(tensor.sizes(), tensor.strides()));
    }
    for (const uint32_t read : function_->reads) {
      const at::Tensor& tensor = run.tensors[read];
      const bool is_output = tensor.grad_fn().get() == this;
      saved_.emplace_back(tensor, is_output);
    }
  }

  std::string name() const override { return function_->name + "Backward"; }
  void release_variables() override {
    for (SavedVariable& saved : saved_) saved.reset_data();
  }

 protected:
  variable_list apply(variable_list&& given) override {
    TORCH_CHECK(!function_->is_bare,
                "braze: the backward of a compiled function cannot be differentiated so often: ", name(),
                " is the gradient of a gradient of a gradient.");
    const bool is_differentiated = at::GradMode::is_enabled();
    bool tangents_have_history = false;
    Tape::Run run{std::vector<at::Tensor>(function_->tensor_count), sizes_, true};
    size_t tangent = 0;
    for (size_t k = 0; k < function_->outputs.size(); ++k) {
      if (function_->is_constant[k]) continue;
      at::Tensor& one = run.tensors[function_->tangents.at(tangent++)];
      one = laid_out(k, given.at(k));
      tangents_have_history |= one.requires_grad();
    }
    for (size_t k = 0; k < saved_.size(); ++k) run.tensors[function_->reads[k]] = saved_[k].unpack(this->getptr());
    {
      const at::AutoGradMode grad_mode(is_differentiated && !function_->is_once);
      Tape::run_part(function_->backward, run, at::GradMode::is_enabled(), nullptr);
    }
    variable_list found;
    for (const int64_t gradient : function_->gradients)
      found.push_back(gradient < 0 ? at::Tensor() : run.tensors[static_cast<size_t>(gradient)]);
    if (is_differentiated && function_->is_once && tangents_have_history) return differentiable_never(found);
    return found;
  }

 private:
  /// As the backward has taken it.
  at::Tensor laid_out(size_t output, const at::Tensor& given) const {
    const torch::autograd::InputMetadata& expected = input_metadata(static_cast<uint32_t>(output));
    if (!given.defined()) return expected.zeros_like();
    if (given.strides() == at::IntArrayRef(strides_[output])) return given;
    return at::empty_strided(given.sizes(), strides_[output], given.options()).copy_(given);
  }
  /// As once_differentiable does it.
  static variable_list differentiable_never(const variable_list& found) {
    variable_list detached;
    for (const at::Tensor& one : found)
      detached.push_back(one.defined() ? one.detach().requires_grad_() : at::Tensor());
    torch::autograd::DelayedError error(
        "trying to differentiate twice a function that was marked with @once_differentiable",
        static_cast<int64_t>(found.size()));
    return error.apply(std::move(detached));
  }

  const std::shared_ptr<const Function> function_;
  const std::shared_ptr<const std::vector<int64_t>> sizes_;
  std::vector<std::vector<int64_t>> strides_;  ///< By output, of its gradient.
  std::vector<SavedVariable> saved_;           ///< By Function::reads.
};

void join_function(const std::shared_ptr<const Function>& function, Tape::Run& run, bool has_history) {
  variable_list inputs;
  std::vector<std::optional<at::Tensor>> outputs;
  std::unordered_set<at::TensorImpl*> constants, dirty;
  for (size_t k = 0; k < function->inputs.size(); ++k) {
    inputs.push_back(run.tensors[function->inputs[k]]);
    if (function->is_dropped[k] && inputs.back().requires_grad() && !function->is_dirty[k])
      inputs.back() = inputs.back().detach();
    if (function->is_dirty[k]) dirty.insert(inputs.back().unsafeGetTensorImpl());
  }
  for (size_t k = 0; k < function->outputs.size(); ++k) {
    outputs.emplace_back(run.tensors[function->outputs[k]]);
    if (function->is_constant[k]) constants.insert(outputs.back()->unsafeGetTensorImpl());
  }
  const bool wants_history = has_history && torch::autograd::any_variable_requires_grad(inputs);
  if (!wants_history) {
    for (size_t k = 0; k < outputs.size(); ++k) run.tensors[function->joined[k]] = *outputs[k];
    return;
  }
  const auto node = make_node<TapeFunction>(function, run);
  const at::AutoGradMode gradients_on(true);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  const auto no_jvp = [](const variable_list&, const variable_list&) -> variable_list {
    throw UserError("forward-mode derivatives of an autograd.Function in a compiled function");
  };
  const auto view_as_self = [](const at::Tensor& tensor) {
    const at::NoGradGuard no_history;
    return tensor.view_as(tensor);
  };
  const std::vector<std::optional<at::Tensor>> joined = torch::autograd::_wrap_outputs(
      inputs, constants, dirty, outputs, node, no_jvp, {}, view_as_self, /*pure_view=*/false);
  for (size_t k = 0; k < joined.size(); ++k) run.tensors[function->joined[k]] = *joined[k];
  node->save(run);
}

}  // namespace braze::capture
