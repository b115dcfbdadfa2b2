#include "capture/recorder.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <unordered_set>

#include "capture/arguments.h"
#include "capture/asked_by.h"
#include "capture/autograd_node.h"
#include "capture/call.h"
#include "capture/devices.h"
#include "capture/effect_times.h"
#include "capture/gates.h"
#include "capture/guess_shapes.h"
#include "capture/index_map.h"
#include "capture/library_call.h"
#include "capture/number.h"
#include "capture/number_calls.h"
#include "capture/numbers_in_calls.h"
#include "capture/overlap.h"
#include "capture/replaced_data.h"
#include "capture/size_node.h"
#include "capture/sized_calls.h"
#include "capture/sized_operands.h"
#include "capture/tape.h"
#include "capture/traceable.h"
#include "capture/version_checks.h"
#include "capture/version_counters.h"
#include "capture/window.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// Tells traces apart, so that a tensor of a finished one is recognised.
uint64_t next_serial() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

/// Stands where the history of a tensor from outside would begin. Nobody runs it.
struct InputNode final : torch::autograd::Node {
  std::string name() const override { return history_from_outside; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    throw UserError("braze: the gradient of a tensor from outside of the traced function is wanted in it.");
  }
};

/// Of a tracer for a leaf, or for what has been computed: that may be written to.
InputHistory begin_history(const at::Tensor& tracer, bool is_leaf) {
  if (is_leaf) {
    tracer.set_requires_grad(true);
    return {torch::autograd::impl::gradient_edge(tracer)};
  }
  const auto node = make_node<InputNode>();
  torch::autograd::impl::set_gradient_edge(tracer, {node, node->add_input_metadata(tracer)});
  return {{node, 0}};
}

}  // namespace

namespace {

/// A program need not make all the tensors that eager makes, and would not notice that one of them cannot be had.
int64_t bytes_of_memory() {
  static const int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return bytes;
}

}  // namespace

Recorder::Recorder(std::string_view name, PhaseTimes* times)
    : tensors_(std::make_shared<TraceTensors>(next_serial())),
      graph_(std::make_shared<ir::Graph>(name)),
      times_(times),
      first_sequence_number_(at::sequence_number::peek()) {}

// ---- tensors and values

const ir::Type* Recorder::type(ScalarType dtype, c10::Device device, DimsRef sizes, DimsRef strides) {
  device = numbered(device);
  return type_in(*graph_, to_dtype(dtype), to_device(device), sizes, strides);
}

Memory& Recorder::new_memory(const ir::Type* type, ScalarType dtype, c10::Device device, ir::Value* value) {
  Memory& memory = memories_.emplace_back();
  auto root = std::make_shared<View>();
  root->memory = &memory;
  root->type = type;
  root->dtype = dtype;
  root->value = value;
  if (device.is_cpu() && end_byte(*root).hint() > bytes_of_memory())
    throw UserError("braze: a tensor that is larger than the machine's memory. Eager says whether it can be had.");
  memory.storage = make_empty_storage(end_byte(*root), device);
  memory.base = root.get();
  memory.roots.push_back(std::move(root));
  return memory;
}

at::Tensor Recorder::wrap_view(ViewPtr view, const at::Tensor& base) {
  return at::detail::make_tensor<TracerTensor>(std::move(view), tensors_, base.device(), base.is_inference());
}

at::Tensor Recorder::wrap(ViewPtr view, c10::Device device) {
  return at::detail::make_tensor<TracerTensor>(std::move(view), tensors_, device, c10::InferenceMode::is_enabled());
}

at::Tensor Recorder::wrap_fresh(ir::Value* value, ScalarType dtype, c10::Device device) {
  return wrap(new_memory(value->type, dtype, device, value).roots[0], device);
}

at::Tensor Recorder::wrap_gapped(ir::Value* value, ScalarType dtype, c10::Device device, DimsRef sizes,
                                 DimsRef strides, Dim offset) {
  const Dim length = offset + extent(sizes, strides), none = 0;
  const DType mine = to_dtype(dtype);
  const ir::Device place = to_device(device);
  const ir::Type* memory = rows_in(*graph_, mine, place, {&length, 1});
  ir::Value* flat = nullptr;
  if (is_kernel_dtype(dtype)) {
    flat = graph_->create(Op::expand, {graph_->scalar(mine, ir::Number::of_int(0), place)}, {},
                          type_in(*graph_, mine, place, {&length, 1}, {&none, 1}));
    flat = graph_->create(Op::cast, {flat}, {}, memory);
    if (value) flat = write_through(*graph_, flat, strided_map(sizes, strides, offset), value);
  } else {
    BRAZE_CHECK(value, "only operators of ATen make tensors of such types");
    flat = call_simple("braze::spread", {value},
                       {at::Tensor(), as_argument(strides), to_sym_int(offset), to_sym_int(length)}, memory);
  }
  const at::Tensor whole = wrap_fresh(flat, dtype, device);
  const ViewPtr view = window_like(view_of(whole), type(dtype, device, sizes, strides), offset);
  if (value) {  // Read as it is, until something is written there.
    view->value = value;
    view->version = view->memory->version;
  }
  return wrap(view, device);
}

at::Tensor Recorder::wrap_lazy(const ir::Type* type, ScalarType dtype, c10::Device device,
                               std::function<ir::Value*()> make) {
  Memory& memory = new_memory(type, dtype, device, nullptr);
  memory.lazy = std::move(make);
  return wrap(memory.roots[0], device);
}

at::Tensor Recorder::add_private_constant(const at::Tensor& real) {
  check_traceable(real, "a tensor built while tracing");
  at::Tensor tracer;
  if (real.dim() == 0 && real.is_cpu() && is_kernel_dtype(real.scalar_type())) {
    const DType dtype = to_dtype(real.scalar_type());
    ir::Value* value = graph_->scalar(dtype, to_number(at::_local_scalar_dense(real), dtype));
    tracer = wrap_fresh(value, real.scalar_type(), real.device());
    known_.keep(value, real);
    return tracer;
  }
  const ViewPtr view = view_of(real);
  // The traced function makes a new tensor at every call: what it writes there is not the constant's.
  ir::Value* value = read(*this, *view);
  const bool has_gaps = !is_dense(real.sizes(), real.strides());
  tracer = has_gaps && !may_overlap(*view->type)
               ? wrap_gapped(value, real.scalar_type(), real.device(), real.sizes(), real.strides(), 0)
               : wrap_fresh(value, real.scalar_type(), real.device());
  known_.keep(view->value, real);
  return tracer;
}

void Recorder::depend_on_place(const ViewPtr& view, int64_t bytes) {
  for (const View* from = view.get(); from; from = from->parent.get())
    if (from->input >= 0) {
      uint32_t& modulus = place_modulus_[from->input];
      modulus = std::max(modulus, static_cast<uint32_t>(bytes));
    }
}

bool Recorder::is_from_outside(const at::Tensor& real) const {
  const c10::TensorImpl* impl = real.unsafeGetTensorImpl();
  return bound_.contains(impl) || names_.contains(impl);
}

const ViewPtr& Recorder::view_of(const at::Tensor& tensor) {
  if (const TracerTensor* tracer = as_tracer(tensor)) {
    if (tracer->trace() != tensors_->serial())
      throw UserError(
          "braze: a tensor of a finished trace was used. Tensors made while tracing do not outlive the "
          "traced function, except as its results: do not keep them in attributes or globals.");
    return tracer->view();
  }
  if (const auto found = bound_.find(tensor.unsafeGetTensorImpl()); found != bound_.end() && found->second.view)
    return found->second.view;
  const auto name = names_.find(tensor.unsafeGetTensorImpl());
  if (name != names_.end()) return bind(tensor, ir::InputKind::param, name->second);
  return bind(tensor, ir::InputKind::constant, concat("constant", inputs_.size()));
}

const ViewPtr& Recorder::bind(const at::Tensor& real, ir::InputKind kind, std::string_view name) {
  check_traceable(real, concat("`", name, "`"));
  has_met(real.device());
  const TraceSizes::Varied* varied = sizes_.varied(real);
  const ir::Type* mine = varied ? type(real.scalar_type(), real.device(), std::span<const ir::Size>(varied->sizes),
                                       std::span<const ir::Size>(varied->strides))
                                : type(real.scalar_type(), real.device(), real.sizes(), real.strides());
  Bound& bound = bound_[real.unsafeGetTensorImpl()];
  bound.real = real;
  if (real.requires_grad() && real.is_leaf()) bound.gradient = real.grad();
  if (!real.is_inference()) bound.version = real._version();

  StoragePlaces::Place place = places_.find(real);
  const auto itemsize = static_cast<int64_t>(real.itemsize());
  const int64_t origin = place.begin - place.origin;
  if (origin % itemsize != 0)
    throw UserError(concat("braze: `", name,
                           "` shares memory with another tensor, whose elements begin at other "
                           "bytes. Pass one of them as a clone()."));
  const int64_t offset = origin / itemsize + real.storage_offset();
  const bool is_argument = kind == ir::InputKind::argument;
  if (place.memory && !is_argument) {
    for (const ViewPtr& root : place.memory->roots)
      if (root->type == mine && root->dtype == real.scalar_type() && root->offset == offset &&
          inputs_[root->input].is_alias_of(real))
        return bound.view = root;
    if (place.memory->version > 0) {
      bound.view = window_like(place.memory->roots[0], mine, offset);
      bound.view->dtype = real.scalar_type();
      bound.view->origin = origin;
      if (!is_covered(*bound.view))
        throw UserError(concat("braze: `", name,
                               "` shares memory with a tensor that the traced function has written "
                               "to, in a way that cannot be followed. Pass one of them as a clone()."));
      return bound.view;
    }
  }
  ir::Value* value = graph_->add_input(name, mine, kind);
  const auto index = static_cast<int32_t>(inputs_.size());
  inputs_.push_back(real);
  place_modulus_.push_back(1);
  if (!place.memory) {
    place.memory = &new_memory(mine, real.scalar_type(), real.device(), value);
    bound.view = place.memory->roots[0];
  } else {
    bound.view = std::make_shared<View>();
    bound.view->memory = place.memory;
    bound.view->type = mine;
    bound.view->dtype = real.scalar_type();
    bound.view->value = value;
    place.memory->roots.push_back(bound.view);
  }
  bound.view->offset = offset;
  bound.view->origin = origin;
  bound.view->input = index;
  places_.keep(place);
  return bound.view;
}

at::Tensor Recorder::add_argument(const at::Tensor& real, std::string_view name) {
  const Bound& known = bound_[real.unsafeGetTensorImpl()];
  if (known.tracer.defined()) return known.tracer;
  bind(real, ir::InputKind::argument, name);
  return stand_in(real);
}

at::Tensor Recorder::stand_in(const at::Tensor& real) {
  view_of(real);
  Bound& bound = bound_[real.unsafeGetTensorImpl()];
  if (bound.tracer.defined()) return bound.tracer;
  bound.tracer = wrap_view(bound.view, real);  // Of its mode, which need not be that of the trace.
  // A view and its base count their writes together, and so do what stands for them.
  if (bound.view->memory->roots.size() > 1)
    for (const auto& [impl, other] : bound_)
      if (&other != &bound && other.tracer.defined() && share_version(other.real, real)) {
        bound.tracer.unsafeGetTensorImpl()->set_version_counter(
            other.tracer.unsafeGetTensorImpl()->version_counter());
        break;
      }
  if (real.requires_grad())
    bound.history = std::make_shared<const InputHistory>(begin_history(bound.tracer, real.is_leaf()));
  return bound.tracer;
}

bool Recorder::is_tracked(const at::Tensor& real) const {
  if (real.requires_grad()) return true;
  const auto bound = bound_.find(real.unsafeGetTensorImpl());
  return bound != bound_.end() && bound->second.tracer.defined() && bound->second.tracer.requires_grad();
}

/// Null if it stands for no tensor from outside.
const Recorder::Bound* Recorder::stood_in_by(const at::Tensor& tracer) const {
  for (const auto& [impl, bound] : bound_)
    if (bound.tracer.is_same(tracer)) return &bound;
  return nullptr;
}

/// The trace has written to what it stands for, and autograd knows of it.
bool Recorder::was_rebased(const Bound& bound) {
  if (!bound.tracer.defined() || bound.tracer.is_leaf()) return false;
  return !bound.history || bound.tracer.grad_fn().get() != bound.history->edge.function.get();
}

const at::Tensor* Recorder::bound_as(const ViewPtr& view) const {
  return view->input < 0 ? nullptr : &inputs_[view->input];
}

void Recorder::name_parameter(const at::Tensor& real, std::string_view name) {
  names_.try_emplace(real.unsafeGetTensorImpl(), name);
}

Recorder::Mark Recorder::mark(size_t memories) const {
  Mark mark{memories, 0, 0};
  // One that the trace has met since may have been there as well.
  for (size_t k = 0; k < memories_.size(); ++k)
    if (k < memories || memories_[k].base->input >= 0) mark.writes += memories_[k].version;
  for_each_node(*graph_, [&](const ir::Node* node) {
    mark.effects += node->has_effect() || has(node->op, ir::traits::raises);
  });
  return mark;
}

// ---- recording

/// Autograd notes in a tensor's history what is written into it, once this call has returned. A replay does that to
/// tensors from outside which are no views; other writes are refused. What is written through `tensor.data` gives a
/// history to that alone, which is a tensor of the trace, and not to the tensor whose memory it is. The running
/// statistics of a batch norm are not among such writes.
void Recorder::refuse_tracked_write(const OpEntry& entry, std::span<const c10::IValue> arguments) {
  bool tracked = false, outside = false, by_data = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = entry.op.schema().arguments()[i].alias_info();
    const bool written = alias && alias->isWrite();
    for_each_tensor(arguments.subspan(i, 1), [&](const at::Tensor& tensor, uint32_t, int32_t) {
      tracked |= tensor.requires_grad();
      const TracerTensor* tracer = as_tracer(tensor);
      if (!written || (tracer && (!tracer->view() || tracer->view()->memory->base->input < 0))) return;
      const Bound* bound = tracer ? stood_in_by(tensor.is_view() ? at::Tensor(tensor._base()) : tensor) : nullptr;
      const bool is_data = tracer && !bound && !tensor.is_view();
      by_data |= is_data;
      outside |= !is_data && (!bound || bound->real.is_view() || bound->real.is_inference());
    });
  }
  TapeRecorder* const tape = TapeRecorder::current();
  if (tracked && by_data && !outside && tape && tape->can_be_lost())
    tape->lose(concat(entry.op.schema().name(), " writes through `data`"));
  else if (tracked && by_data && tape)
    outside = true;
  if (!tracked || !outside) return;
  wants_gradients_ = true;
  throw UserError(concat("braze: ", entry.op.schema().name(),
                         " writes into a tensor that was there before, and its gradient is wanted. Use "
                         "torch.no_grad(), or the form without the underscore."));
}

uint64_t Recorder::count_writes() const {
  uint64_t writes = 0;
  for (const Memory& memory : memories_) writes += memory.version;
  return writes;
}

void Recorder::record(const OpEntry& entry, torch::jit::Stack* stack) {
  const std::span<const c10::IValue> arguments(stack->data() + stack->size() - entry.arguments, entry.arguments);
  if (const ReplacedData* replaced = replaced_data(); replaced && !replaced->is_empty())
    for_each_tensor(arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
      if (!as_tracer(tensor) && replaced->contains(tensor))
        throw UserError("braze: the `data` of a tensor was replaced, and code that the gate does not see reads it");
    });
  if (entry.writes && at::GradMode::is_enabled()) refuse_tracked_write(entry, arguments);
  update_source(*graph_);
  check_switches(entry);
  refuse_meta(entry, arguments);
  if (!symbols()) {
    if (!record_by_rule(entry, stack)) record_fallback(*this, entry, stack);
    return;
  }
  refuse_size_as_tensor(entry, arguments);
  sizes_.settle();
  const std::span<c10::IValue> own(stack->data() + stack->size() - entry.arguments, entry.arguments);
  // A tensor whose sizes vary has those of the example: nobody may read them but by its tracer.
  for (c10::IValue& argument : own)
    for_each_tensor({&argument, 1}, [&](const at::Tensor& tensor, uint32_t, int32_t) {
      if (is_varied(*this, tensor))
        argument = map_tensors(argument,
                               [&](const at::Tensor& one) { return is_varied(*this, one) ? stand_in(one) : one; });
    });
  const AskedBy asked(*this, entry.op);
  specialise_narrow_numbers(entry, own);
  if (numbers_decide_shapes(entry))
    for (c10::IValue& argument : own)
      if (can_be_fixed(argument)) argument = specialised(argument);
  // A size that a rule wants to know is not made a number of, where the library's operator does without.
  const bool may_guess = has_expressions(arguments) && may_guess_shapes(*this, entry, arguments);
  // Code that knows no symbols raises where it meets one, and is given numbers.
  const ir::Node* last = graph_->last();
  const uint64_t writes = count_writes();
  try {
    const SizesForRules sizes(/*refused=*/may_guess);
    if (record_by_rule(entry, stack)) return;
  } catch (const InternalError&) {
    bool any_effect = count_writes() != writes;
    for (const ir::Node* node = graph_->last(); node && node != last; node = node->previous)
      any_effect |= node->has_effect();
    if (any_effect || !specialise_operands(*this, own)) throw;
    sizes_.settle();
    if (record_by_rule(entry, stack)) return;
  }
  if (record_sized_call(*this, entry.op, stack)) return;
  std::optional<Shapes> guessed;
  if (may_guess) guessed = guess_shapes(*this, entry, arguments);
  if (!guessed && has_expressions(arguments)) {
    if (may_guess && record_by_rule(entry, stack)) return;  // Which asks for fewer sizes than there are.
    const bool any = specialise_operands(*this, own);
    sizes_.settle();
    if (any && record_by_rule(entry, stack)) return;
  }
  record_fallback(*this, entry, stack, guessed ? &*guessed : nullptr);
}

bool Recorder::record_by_rule(const OpEntry& entry, torch::jit::Stack* stack) {
  const std::span<const c10::IValue> arguments(stack->data() + stack->size() - entry.arguments, entry.arguments);
  if (entry.writes && !entry.moves_view) check_overlap(*this, entry, arguments);
  Call call(*this, entry, arguments);
  if (!entry.rule || !call.settle_device() || may_be_refused(entry, arguments)) return false;
  try {
    const WithinRule within;
    if (!entry.rule->rule(call, *entry.rule)) return false;
  } catch (const NumberWanted&) {
    return false;
  }
  if (call.lacks_code() || !deliver(call)) return false;
  known_.follow(entry, arguments, call);
  torch::jit::drop(*stack, entry.arguments);
  for (Call::Result& result : call.results) stack->push_back(std::move(result.ready));
  return true;
}

namespace {

/// What is computed of numbers that inputs decide is one of them.
bool computes_number(const Call& call, const ir::Value& value) {
  if (value.type->rank() != 0 || value.type->dtype != DType::f64) return false;
  bool any = false, all = true;
  for_each_tensor(call.arguments, [&](const at::Tensor& tensor, uint32_t, int32_t) {
    any |= is_number(tensor);
    all &= tensor.unsafeGetTensorImpl()->is_wrapped_number();
  });
  return any && all;
}

}  // namespace

/// Turns the rule's values into tensors, or writes them where the in-place or out= form wants them.
bool Recorder::deliver(Call& call) {
  const OpEntry& entry = call.entry;
  if (entry.mode == OpEntry::Mode::functional) {
    for (Call::Result& result : call.results)
      if (result.value) {
        const at::Tensor made = wrap_fresh(result.value, to_scalar_type(result.value->type->dtype), call.device());
        if (computes_number(call, *result.value)) made.unsafeGetTensorImpl()->set_wrapped_number(true);
        result.ready = made;
      }
    return true;
  }
  const bool in_place = entry.mode == OpEntry::Mode::in_place;
  const size_t first = in_place ? 0 : entry.arguments - entry.outs;
  // An out= tensor of another dtype is refused by some operators, and decides in what others compute: ATen knows.
  for (size_t k = 0; k < call.results.size() && !in_place; ++k) {
    const at::Tensor& target = call.arguments[first + k].toTensor();
    const ir::Value* value = call.results[k].value;
    if (value && target.defined() && to_scalar_type(value->type->dtype) != target.scalar_type()) return false;
  }
  for (size_t k = 0; k < call.results.size(); ++k) {
    Call::Result& result = call.results[k];
    const at::Tensor& target = call.arguments[first + k].toTensor();
    if (entry.moves_view && result.ready.isTensor()) {
      move_view(entry, target, result.ready.toTensor());
      result.ready = target;
      continue;
    }
    const bool resizes = !in_place && result.value && target.defined() && !is_empty(dims_of(target)) &&
                         !(to_ref(result.value->type->sizes) == to_ref(view_of(target)->type->sizes));
    if (resizes) refuse_resize(entry);
    if (!result.value || !target.defined() || !store(target, result.value, !in_place)) {
      BRAZE_CHECK(k == 0, "the second result of ", entry.op.schema().name(), " cannot be stored");
      return false;
    }
    result.ready = target;
  }
  return true;
}

/// t_(), squeeze_() and their like: the tensor itself becomes another view of its memory.
void Recorder::move_view(const OpEntry& entry, const at::Tensor& target, const at::Tensor& view) {
  TracerTensor* tracer = as_tracer(target);
  if (tracer && tracer->view() == view_of(view)) return;
  const bool outside =
      !tracer || std::ranges::any_of(bound_, [&](const auto& row) { return row.second.tracer.is_same(target); });
  if (outside)
    throw UserError(concat("braze: ", entry.op.schema().name(),
                           " changes the shape of a tensor that is an input, which "
                           "cannot be traced. Use the form without the underscore."));
  tracer->rebind(view_of(view));
}

bool Recorder::store(const at::Tensor& target, ir::Value* value, bool may_resize) {
  const ScalarType have = to_scalar_type(value->type->dtype);
  if (!is_kernel_dtype(target.scalar_type()) || !c10::canCast(have, target.scalar_type())) return false;
  const ViewPtr view = view_of(target);
  const bool same_sizes = to_ref(value->type->sizes) == to_ref(view->type->sizes);
  const bool is_its_own = view->input < 0 && !view->parent && as_tracer(target);
  if (!same_sizes && !(may_resize && is_empty(dims_of(target)) && is_its_own)) return false;
  const ir::Type* wanted = view->type;
  if (!same_sizes)
    wanted = type(target.scalar_type(), target.device(), to_ref(value->type->sizes), to_ref(value->type->strides));
  if (value->type->dtype != wanted->dtype || !same_sizes) {
    if (value->type != wanted) value = graph_->create(Op::cast, {value}, {}, wanted);
  }
  if (same_sizes)
    write(*this, *view, value);
  else
    as_tracer(target)->rebind(new_memory(wanted, target.scalar_type(), target.device(), value).roots[0]);
  return true;
}

// ---- calls

ir::Node* Recorder::create_call(const CallPayload& payload, std::span<ir::Value* const> operands,
                                std::span<const ir::Type* const> results, bool effect) {
  const ir::LibraryCall call = describe(payload, objects_);
  BRAZE_CHECK(call.results.size() == results.size(), "a call of ", call.name, " with unplaced results");
  std::string arguments;
  ir::append_arguments(arguments, call.arguments);
  const std::string places = ir::print(call.results);
  const std::vector<int64_t> written(call.written.begin(), call.written.end());
  c10::SmallVector<ir::Attr, 6> attrs{{"target", std::string_view(call.name)}};
  if (!call.overload.empty()) attrs.push_back({"overload", std::string_view(call.overload)});
  attrs.push_back({"arguments", std::string_view(arguments)});
  if (!written.empty()) attrs.push_back({"written", std::span<const int64_t>(written)});
  if (!places.empty()) attrs.push_back({"results", std::string_view(places)});
  if (effect) attrs.push_back({"effect", true});
  if (EffectTimes* const times = EffectTimes::current(); times && effect) times->note_effect();
  return graph_->create(ir::Op::call, operands, {attrs.data(), attrs.size()}, results);
}

ir::Value* Recorder::call_simple(const char* name, std::initializer_list<ir::Value*> operands,
                                 std::vector<c10::IValue> arguments, const ir::Type* type) {
  CallPayload payload{
      c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), std::move(arguments), {}, {}, {{0, -1}}};
  uint32_t operand = 0;
  for (uint32_t k = 0; k < payload.stack.size(); ++k)
    if (payload.stack[k].isTensor()) payload.slots.push_back({k, -1, operand++});
  BRAZE_CHECK(operand == operands.size(), name, ": tensors and operands differ in number");
  return create_call(payload, {operands.begin(), operands.size()}, {&type, 1}, false)->result();
}

}  // namespace braze::capture
