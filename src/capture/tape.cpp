#include "capture/tape.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "capture/devices.h"
#include "capture/generator.h"
#include "capture/number.h"
#include "capture/numbers_in_calls.h"
#include "capture/recorder.h"
#include "capture/registry.h"
#include "capture/size_node.h"
#include "capture/tape_function.h"
#include "capture/tracer_tensor.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// The recorder that keeps this thread's calls: the kernels, plain functions, have no other way to it.
thread_local TapeRecorder* current_recorder = nullptr;

/// What the tracer recorded was already below autograd and autocast. Not below ADInplaceOrView: that key counts
/// versions and tells which tensors are views.
const c10::DispatchKeySet excluded_keys = c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;

/// Calls `body(tensor, element)` for every defined tensor of an argument or result.
template <typename Body>
void for_each_tensor(const c10::IValue& value, Body&& body) {
  const auto visit = [&](const at::Tensor& tensor, int32_t element) {
    if (tensor.defined()) body(tensor, element);
  };
  if (value.isTensor()) return visit(value.toTensor(), -1);
  if (value.isTensorList()) {
    const auto list = value.toTensorVector();
    for (size_t k = 0; k < list.size(); ++k) visit(list[k], static_cast<int32_t>(k));
  } else if (value.isOptionalTensorList()) {
    const auto list = value.toOptionalTensorVector();
    for (size_t k = 0; k < list.size(); ++k)
      if (list[k]) visit(*list[k], static_cast<int32_t>(k));
  }
}

/// The argument with `change(tensor)` in the place of its tensor number `element`; lists are copied before.
void replace_tensor(c10::IValue& value, int32_t element, at::Tensor tensor, bool& copied) {
  if (element < 0) {
    value = std::move(tensor);
  } else if (value.isTensorList()) {
    if (!std::exchange(copied, true)) value = value.toTensorList().copy();
    value.toTensorList().set(element, std::move(tensor));
  } else {
    if (!std::exchange(copied, true)) value = value.toOptionalTensorList().copy();
    value.toOptionalTensorList().set(element, std::move(tensor));
  }
}

/// Likewise of a size.
void set_size(c10::IValue& value, int32_t element, int64_t size) {
  if (element < 0) {
    value = size;
  } else {
    value = value.toIntList().copy();
    value.toIntList().set(element, size);
  }
}

/// A Python number in an operator's tensor argument: part of the call, as the number itself would be.
bool is_plain_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_tracer(tensor);
}

void add_generator(std::vector<at::Generator>& all, const at::Generator& one) {
  if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

bool is_returned_argument(const c10::OperatorHandle& op, size_t returned) {
  const c10::AliasInfo* alias = op.schema().returns()[returned].alias_info();
  return alias && alias->isWrite();
}

}  // namespace

/// What a failed replay has to put back.
class Tape::Undo {
 public:
  Undo(std::span<const at::Tensor> inputs, bool draws) : inputs_(inputs) {
    if (draws) generator_ = cpu_generator_state();
  }

  /// Before a write.
  void save(const at::Tensor& target) {
    const bool is_input = std::ranges::any_of(
        inputs_, [&](const at::Tensor& input) { return input.has_storage() && input.is_alias_of(target); });
    // Nothing writes to a tensor whose elements overlap: it raises before.
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(excluded_keys);
    if (is_input && at::has_internal_overlap(target) != at::MemOverlap::Yes)
      saved_.emplace_back(target, target.clone());
  }

  void restore() {
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(excluded_keys);
    for (auto at = saved_.rbegin(); at != saved_.rend(); ++at) at->first.copy_(at->second);
    if (generator_.defined()) set_cpu_generator_state(generator_);
  }

 private:
  std::span<const at::Tensor> inputs_;
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
  at::Tensor generator_;
};

// ---- recording

TapeRecorder::Scope::Scope(TapeRecorder* recorder) : outer_(std::exchange(current_recorder, recorder)) {}

TapeRecorder::Scope::~Scope() {
  current_recorder = outer_;
}

TapeRecorder* TapeRecorder::current() {
  return current_recorder;
}

void TapeRecorder::add_argument(const at::Tensor& real) {
  const bool is_known = std::ranges::any_of(arguments_, [&](const at::Tensor& one) { return one.is_same(real); });
  if (is_known) return;
  number_of_real(real);
  arguments_.push_back(real);
}

uint32_t TapeRecorder::number_of_real(const at::Tensor& real) {
  const auto [at, is_new] = real_.try_emplace(real.unsafeGetTensorImpl(), tape_.tensor_count_);
  if (is_new) tape_.inputs_.push_back({tape_.tensor_count_++, {}, real, real.requires_grad()});
  return at->second;
}

uint32_t TapeRecorder::number_of(const at::Tensor& tensor) {
  const TracerTensor* tracer = as_tracer(tensor);
  if (!tracer) return number_of_real(tensor);
  const ViewPtr& view = tracer->view();
  if (const auto found = views_.find(view.get()); found != views_.end()) return found->second;
  // The tracer that stands for an argument: the one view that no call has made.
  if (Tracer* current = Tracer::current())
    for (const at::Tensor& argument : arguments_)
      if (current->impl().view_of(argument) == view) return set_number(tensor, number_of_real(argument));
  // One that the gate for values put in the place of a tensor from outside.
  if (Tracer* current = Tracer::current())
    if (const at::Tensor* real = current->impl().bound_as(view)) return set_number(tensor, number_of_real(*real));
  throw UserError("braze: a tensor of unknown origin cannot be kept on a tape.");
}

uint32_t TapeRecorder::set_number(const at::Tensor& tensor, uint32_t number) {
  const TracerTensor* tracer = as_tracer(tensor);
  if (!tracer) return number;
  views_[tracer->view().get()] = number;
  held_.push_back(tracer->view());
  return number;
}

void TapeRecorder::lose(std::string_view why) {
  if (lost_.empty()) lost_ = why;
  tape_ = {};
  open_.clear();
  views_.clear();
  real_.clear();
  held_.clear();
}

std::optional<TapeRecorder::Pending> TapeRecorder::try_begin(const OpEntry& entry, const torch::jit::Stack& stack) {
  if (!lost_.empty()) return std::nullopt;
  if (!can_be_lost_) return begin(entry, stack);
  try {
    return begin(entry, stack);
  } catch (const UserError& error) {
    lose(error.what());
    return std::nullopt;
  }
}

/// Notes which sizes of an argument are expressions, and puts numbers in their places.
void TapeRecorder::keep_sizes(Tape::Call& call, uint32_t argument) {
  c10::IValue& value = call.stack[argument];
  if (number_behind(value).defined()) return keep_number(call, argument);
  if (!has_symbols(value)) return;
  const auto note = [&](const c10::IValue& one, int32_t element) {
    const Dim dim = dim_of(one);
    if (dim.is_number()) return int64_t{dim};
    call.sizes.push_back({argument, element, static_cast<uint32_t>(sizes_.size())});
    sizes_.push_back(dim.size());
    return int64_t{0};
  };
  if (value.isSymInt()) {
    value = note(value, -1);
  } else if (value.isList()) {
    c10::List<int64_t> numbers;
    for (const c10::IValue& one : value.toListRef())
      numbers.push_back(note(one, static_cast<int32_t>(numbers.size())));
    value = std::move(numbers);
  } else {
    throw UserError("a number that sizes decide is an argument");
  }
}

/// A number that inputs decide, in the place of a plain one.
void TapeRecorder::keep_number(Tape::Call& call, uint32_t argument) {
  c10::IValue& value = call.stack[argument];
  call.slots.push_back({argument, kNumberSlot, number_of(number_behind(value))});
  call.tracked.push_back(false);
  value = 0.0;
}

void TapeRecorder::note_number(const at::Tensor& number, ir::Size size, std::optional<ir::Size> divisor) {
  if (!can_be_lost_) return;
  const auto kept = [&](ir::Size one) {
    sizes_.push_back(one);
    return static_cast<uint32_t>(sizes_.size() - 1);
  };
  const uint32_t first = kept(size);
  tape_.numbers_.push_back({tape_.tensor_count_, first, divisor ? std::optional(kept(*divisor)) : std::nullopt});
  set_number(number, tape_.tensor_count_++);
}

TapeRecorder::Pending TapeRecorder::begin(const OpEntry& entry, const torch::jit::Stack& stack) {
  const std::span<const c10::IValue> arguments(stack.data() + stack.size() - entry.arguments, entry.arguments);
  Pending pending{&entry,
                  {entry.op, {arguments.begin(), arguments.end()}, {}, {}, {}, {}, entry.random, false, {}, {}, {}},
                  {}};
  if (can_be_lost_ && entry.random) pending.device = device_of(arguments).device;
  // What a function and its backward make has no history while they run, but may where the tape does.
  const uint32_t without_gradients = open_.empty() ? UINT32_MAX : open_.front().tensors;
  Tape::Call& call = pending.call;
  call.with_grad = at::GradMode::is_enabled() || (!open_.empty() && is_in_backward_);
  // A constant that the function makes anew at each call: lift_fresh would give away the one that the tape holds.
  const auto is_made_by_python = [](const at::Tensor& tensor) {
    Tracer* const tracer = Tracer::current();
    return !as_tracer(tensor) && !(tracer && tracer->impl().is_from_outside(tensor));
  };
  if (entry.op.schema().name() == "aten::lift_fresh" && is_made_by_python(arguments[0].toTensor()))
    call.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::lift_fresh_copy", "");
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (can_be_lost_) keep_sizes(call, i);
    if (can_be_lost_ && entry.random && arguments[i].isGenerator())
      add_generator(tape_.generators_, arguments[i].toGenerator());
    bool copied = false;
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor, int32_t element) {
      if (is_plain_number(tensor)) return;
      const bool counts_as_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      if (counts_as_number && !can_be_lost_)
        throw UserError("braze: a number that a tensor stands for cannot be kept on a tape.");
      const uint32_t number = number_of(tensor);
      if (const auto leaf = leaves_.find(number); leaf != leaves_.end()) check_leaf(leaf->second, tensor);
      if (counts_as_number) call.numbers.push_back(static_cast<uint32_t>(call.slots.size()));
      call.slots.push_back({i, element, number});
      const bool is_input = std::ranges::find(tape_.inputs_, number, &Tape::Input::tensor) != tape_.inputs_.end();
      call.tracked.push_back(has_history(tensor) || (number >= without_gradients && !is_input));
      pending.reads_lazy |= (tensor.is_conj() || tensor.is_neg()) && has_history(tensor);
      replace_tensor(call.stack[i], element, at::Tensor(), copied);
      if (!is_written(entry, i, arguments)) return;
      call.written.push_back(number);
      pending.written.emplace_back(tensor, number);
    });
  }
  return pending;
}

void TapeRecorder::begin_leaf(const at::Tensor& tensor) {
  if (!lost_.empty()) return;
  if (!open_.empty()) return lose("a leaf begins within the backward of a function");
  const uint32_t number = number_of(tensor);
  tape_.part_.leaves.push_back({tape_.part_.calls.size(), number});
  leaves_.insert_or_assign(number, tensor);
}

/// Tensors of the same elements share a number: with this one's history, or none, or not on a tape.
void TapeRecorder::check_leaf(const at::Tensor& leaf, const at::Tensor& tensor) {
  using torch::autograd::impl::gradient_edge;
  if (tensor.requires_grad() && !(leaf.requires_grad() && gradient_edge(tensor) == gradient_edge(leaf)))
    throw UserError("braze: a tensor is read with a history that is not that of the leaf with its elements");
}

bool TapeRecorder::has_history(const at::Tensor& tensor) const {
  return tensor.requires_grad() ||
         std::ranges::any_of(resolved_, [&](const at::Tensor& one) { return one.is_same(tensor); });
}

void TapeRecorder::note_generator(c10::Device device) {
  add_generator(tape_.generators_, default_generator(device));
}

void TapeRecorder::end(Pending pending, const torch::jit::Stack& stack) {
  Tape::Call& call = pending.call;
  const size_t returns = pending.entry->returns;
  const c10::IValue* const results = stack.data() + stack.size() - returns;
  bool is_seen = returns == 0;
  for (uint32_t r = 0; r < returns; ++r) {
    if (is_returned_argument(call.op, r)) {
      is_seen = true;
      continue;
    }
    for_each_tensor(results[r], [&](const at::Tensor& tensor, int32_t element) {
      is_seen = true;
      if (!as_tracer(tensor)) return;
      // The same elements without a history: what reads them says so (Call::tracked).
      const ViewPtr& view = as_tracer(tensor)->view();
      if (views_.contains(view.get())) return;
      if (Tracer* const tracer = Tracer::current(); tracer && tracer->impl().bound_as(view)) {
        number_of(tensor);
        return;
      }
      if (!pending.device) pending.device = tensor.device();
      set_number(tensor, tape_.tensor_count_);
      if (pending.reads_lazy && call.with_grad && call.op.schema().name() == "aten::clone")
        resolved_.push_back(tensor);
      const bool is_differentiable = c10::isFloatingType(tensor.scalar_type()) || tensor.is_complex();
      call.results.push_back({r, element, tape_.tensor_count_++, is_differentiable});
    });
  }
  // What Python has read (is_same_size, item of a known value) is in the program that Python made of it.
  if (!is_seen) return;
  // An out= tensor that was resized stands for another view now.
  for (const auto& [tensor, number] : pending.written) set_number(tensor, number);
  if (Tracer* tracer = Tracer::current(); tracer && !can_be_lost_) call.source = tracer->impl().graph().source();
  tape_.draws_ |= call.random;
  if (can_be_lost_ && call.random && std::ranges::none_of(call.stack, &c10::IValue::isGenerator))
    note_generator(pending.device.value_or(c10::kCPU));
  tape_.part_.calls.push_back(std::move(call));
}

Tape TapeRecorder::finish(const Trace& trace, const std::vector<at::Tensor>& outputs) {
  ir::for_each_node(*trace.graph, [](const ir::Node* node) {
    if (node->op == ir::Op::call && node->text_attr("target") == "braze::set_generator_state")
      throw UserError("braze: the function sets the generator's state, which backend \"eager\" cannot repeat.");
  });
  std::vector<at::Tensor> inputs;  // By graph input.
  for (size_t k = 0, argument = 0; k < trace.bound.size(); ++k) {
    const bool is_bound = trace.bound[k].defined();
    BRAZE_CHECK(is_bound || argument < arguments_.size(), "the graph has more arguments than its tape");
    inputs.push_back(is_bound ? trace.bound[k] : arguments_[argument++]);
    if (const auto found = real_.find(inputs.back().unsafeGetTensorImpl()); found != real_.end())
      std::ranges::find(tape_.inputs_, found->second, &Tape::Input::tensor)->name = trace.graph->inputs()[k].name;
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const OutputRecipe& recipe = trace.outputs.at(k);
    const bool is_input = recipe.kind == OutputRecipe::Kind::input_object;
    tape_.outputs_.push_back(number_of(is_input ? inputs.at(recipe.index) : outputs[k]));
    tape_.outputs_tracked_.push_back(outputs[k].requires_grad());
  }
  for (size_t k = 0; k < arguments_.size(); ++k) {
    const uint32_t number = number_of_real(arguments_[k]);
    const auto place = std::ranges::find(tape_.inputs_, number, &Tape::Input::tensor);
    place->bound.reset();
    std::swap(*place, tape_.inputs_[k]);
  }
  tape_.has_history_ = trace.any_requires_grad;
  // If a later call failed, nothing could take the history back.
  for (const ir::Mutation& mutation : trace.graph->mutations())
    if (tape_.has_history_ && Tracer::current()->impl().is_tracked(inputs.at(mutation.input)))
      throw UserError("braze: a tensor from outside that is written gets a history, which a tape cannot give it.");
  tape_.argument_count_ = arguments_.size();
  tape_.plan_releases();
  arguments_.clear();
  real_.clear();
  views_.clear();
  held_.clear();
  return std::exchange(tape_, {});
}

void TapeRecorder::finish_forward(const ir::Graph& graph, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& roots) {
  if (!lost_.empty()) return;
  try {
    ir::for_each_node(graph, [](const ir::Node* node) {
      if (node->op == ir::Op::call && node->text_attr("target") == "braze::set_generator_state")
        throw UserError("the function sets the generator's state");
    });
    for (const at::Tensor& root : roots) {
      tape_.outputs_.push_back(number_of(root));
      tape_.outputs_tracked_.push_back(true);
    }
    const Tracer* tracer = Tracer::current();
    for (Tape::Input& input : tape_.inputs_) {
      const auto place =
          std::ranges::find_if(inputs, [&](const at::Tensor& one) { return one.is_same(input.bound); });
      if (place != inputs.end()) {
        input.graph_input = static_cast<int32_t>(place - inputs.begin());
        input.bound.reset();
      } else if (const_cast<Tracer*>(tracer)->impl().is_from_outside(input.bound)) {
        throw UserError("a tensor is read that no result depends on");
      }
    }
  } catch (const UserError& error) {
    lose(error.what());
  }
}

std::shared_ptr<const Tape> TapeRecorder::take_forward(const std::function<ir::Size(ir::Size)>& simplify,
                                                       std::shared_ptr<const VersionChecks> checks) {
  tape_.checks_ = std::move(checks);
  tape_.is_lost_ = !lost_.empty();
  if (tape_.is_lost_) return std::make_shared<const Tape>(std::move(tape_));
  tape_.has_history_ = true;
  for (const ir::Size size : sizes_) tape_.sizes_.add(simplify(size));
  tape_.plan_releases();
  auto tape = std::make_shared<const Tape>(std::move(tape_));
  lose("it has been taken");
  return tape;
}

// ---- replaying

void Tape::plan_releases() {
  std::vector<bool> needed(tensor_count_, false);
  for (const Input& input : inputs_) needed[input.tensor] = true;
  for (const Number& number : numbers_) needed[number.tensor] = true;
  for (const uint32_t output : outputs_) needed[output] = true;
  for (const std::shared_ptr<const Function>& function : part_.functions)
    function->for_each_tensor([&](uint32_t tensor) { needed[tensor] = true; });
  for (auto call = part_.calls.rbegin(); call != part_.calls.rend(); ++call) {
    const auto release = [&](uint32_t tensor) {
      if (needed[tensor]) return;
      needed[tensor] = true;
      call->releases.push_back(tensor);
    };
    for (const CallPayload::Slot& slot : call->slots) release(slot.operand);
    for (const Result& result : call->results) release(result.tensor);
  }
}

std::vector<at::Tensor> Tape::run(const at::Tensor* const* arguments) const {
  std::vector<at::Tensor> inputs;
  for (size_t k = 0; k < inputs_.size(); ++k)
    inputs.push_back(k < argument_count_ ? *arguments[k] : inputs_[k].bound);
  Undo undo(inputs, draws_);
  const c10::impl::ExcludeDispatchKeyGuard below(has_history_ ? c10::autocast_dispatch_keyset : excluded_keys);
  try {
    return run_calls(inputs, {}, &undo);
  } catch (...) {
    undo.restore();
    throw;
  }
}

std::vector<at::Tensor> Tape::run_again(std::vector<at::Tensor> inputs, std::span<const int64_t> symbols) const {
  for (size_t k = 0; k < inputs_.size(); ++k)
    if (inputs_[k].graph_input < 0) inputs[k] = inputs_[k].bound;
  std::vector<int64_t> sizes(sizes_.result_count());
  if (!sizes_.run(symbols, sizes)) throw UserError("a size on the tape has no value for these symbols");
  const c10::impl::ExcludeDispatchKeyGuard below_autocast(c10::autocast_dispatch_keyset);
  return run_calls(inputs, std::move(sizes), nullptr);
}

/// What a call is given: `x.detach()` and `x.data` are x without its history.
at::Tensor Tape::operand(const Call& call, size_t slot, const at::Tensor& tensor) {
  if (tensor.requires_grad() == call.tracked[slot]) return tensor;
  if (call.tracked[slot]) throw UserError("braze: a tensor has lost its history on the tape.");
  return tensor.detach();
}

void Tape::run_part(const Part& part, Run& run, bool has_history, Undo* undo) {
  const bool tells_history = has_history && !run.is_gradient;
  torch::jit::Stack stack;
  auto function = part.functions.begin();
  const auto join_functions_before = [&](size_t call) {
    for (; function != part.functions.end() && (*function)->before <= call; ++function)
      join_function(*function, run, has_history);
  };
  auto leaf = part.leaves.begin();
  for (const Call& call : part.calls) {
    join_functions_before(&call - part.calls.data());
    for (; has_history && leaf != part.leaves.end() && part.calls.data() + leaf->before <= &call; ++leaf)
      if (at::Tensor& tensor = run.tensors[leaf->tensor]; tensor.defined())
        tensor = tensor.detach().set_requires_grad(true);
    if (undo)
      for (const uint32_t written : call.written) undo->save(run.tensors[written]);
    stack.assign(call.stack.begin(), call.stack.end());
    uint32_t list = ~0u;  // The argument whose list is this call's own by now.
    for (size_t k = 0; k < call.slots.size(); ++k) {
      const CallPayload::Slot& slot = call.slots[k];
      at::Tensor tensor = run.tensors[slot.operand];
      if (slot.element == kNumberSlot) {
        stack[slot.argument] = tensor.item<double>();
        continue;
      }
      if (tells_history) tensor = operand(call, k, tensor);
      if (run.is_gradient && !call.tracked[k] && tensor.requires_grad()) tensor = tensor.detach();
      if (std::ranges::find(call.numbers, k) != call.numbers.end()) {
        tensor = tensor.detach();
        tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
      }
      bool copied = list == slot.argument;
      replace_tensor(stack[slot.argument], slot.element, tensor, copied);
      list = slot.argument;
    }
    for (const CallPayload::Slot& slot : call.sizes)
      set_size(stack[slot.argument], slot.element, (*run.sizes)[slot.operand]);
    const at::AutoGradMode grad_mode(has_history && call.with_grad);
    call.op.callBoxed(&stack);
    for (const Result& result : call.results) {
      const c10::IValue& value = stack.at(result.returned);
      run.tensors[result.tensor] = result.element < 0 ? value.toTensor() : value.toTensorList().get(result.element);
    }
    for (const uint32_t released : call.releases) run.tensors[released].reset();
  }
  join_functions_before(part.calls.size());
}

std::vector<at::Tensor> Tape::run_calls(const std::vector<at::Tensor>& inputs, std::vector<int64_t> sizes,
                                        Undo* undo) const {
  Run run{std::vector<at::Tensor>(tensor_count_), std::make_shared<const std::vector<int64_t>>(std::move(sizes))};
  for (size_t k = 0; k < inputs_.size(); ++k) run.tensors[inputs_[k].tensor] = inputs[k];
  for (const Number& number : numbers_) {
    const int64_t size = (*run.sizes)[number.size];
    const auto by = static_cast<double>(number.divisor ? (*run.sizes)[*number.divisor] : 1);
    run.tensors[number.tensor] = number.divisor
                                     ? at::scalar_tensor(static_cast<double>(size) / by / by, at::kDouble)
                                     : at::scalar_tensor(size, at::kLong);
  }
  run_part(part_, run, has_history_, undo);
  const std::vector<at::Tensor>& tensors = run.tensors;
  std::vector<at::Tensor> results;
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const at::Tensor& tensor = tensors[outputs_[k]];
    const bool is_given = std::find(outputs_.begin(), outputs_.begin() + k, outputs_[k]) != outputs_.begin() + k;
    const at::AutoGradMode grad_mode(has_history_ && outputs_tracked_[k]);
    const bool is_data = has_history_ && !outputs_tracked_[k] && tensor.requires_grad();
    results.push_back(is_data ? tensor.detach() : is_given ? tensor.alias() : tensor);
  }
  return results;
}

// ---- history

namespace {

/// Operators that make a tensor like another one: the elements have nothing to do with it.
bool is_factory(const c10::OperatorHandle& op) {
  const std::string_view name = op.schema().name();
  return name.ends_with("_like") || name.starts_with("aten::new_");
}

}  // namespace

TapeHistory::TapeHistory(const Tape& tape) : tape_(tape), has_(tape.tensor_count_, false) {
  if (!tape.has_history_) return;
  for (const Tape::Input& input : tape.inputs_) has_[input.tensor] = input.tracked;
}

bool TapeHistory::makes_history(const Tape::Call& call) const {
  if (!tape_.has_history_ || !call.with_grad || is_factory(call.op)) return false;
  return call.op.schema().name() != "aten::detach" && std::ranges::find(call.tracked, true) != call.tracked.end();
}

bool TapeHistory::is_dropped(const Tape::Call& call, size_t slot) const {
  const uint32_t tensor = call.slots[slot].operand;
  const bool reads = call.tracked[slot] && call.with_grad;
  if (!has_[tensor] || reads) return false;
  const bool is_written = std::ranges::find(call.written, tensor) != call.written.end();
  if (is_written && makes_history(call))
    throw UserError("braze: a tensor is written that was detached from its history, and gets another one");
  return true;
}

bool TapeHistory::is_output_dropped(size_t k) const {
  return has_[tape_.outputs_[k]] && !tape_.outputs_tracked_[k];
}

void TapeHistory::pass(const Tape::Call& call) {
  const bool makes = makes_history(call);
  for (const Tape::Result& result : call.results) has_[result.tensor] = makes && result.is_differentiable;
  if (!makes) return;
  for (const uint32_t written : call.written) has_[written] = true;
}

}  // namespace braze::capture
