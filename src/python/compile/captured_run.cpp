// python/compile/captured_run.cpp
#include "python/compile/captured_run.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <map>

#include "capture/changed_filters.h"
#include "capture/changed_switches.h"
#include "capture/gate.h"
#include "capture/generator.h"
#include "capture/library_call.h"
#include "capture/registry.h"
#include "ir/graph.h"
#include "python/compile/announce.h"
#include "python/compile/code_table.h"
#include "python/compile/events.h"
#include "python/compile/transforms_scope.h"
#include "python/errors.h"
#include "python/guards/kinds.h"
#include "python/guards/saved_tensor_hooks.h"
#include "python/guards/shape_guard.h"
#include "python/user_line.h"
#include "support/error.h"

namespace braze::python {

using interpreter::Break;
using interpreter::BreakReason;

namespace {

/// Those of torch functions, and whether the functions' handlers are left out.
std::pair<int64_t, int> count_function_modes() {
  using Functions = at::impl::PythonTorchFunctionTLS;
  return {Functions::stack_len(), static_cast<int>(Functions::get_disabled_state())};
}

/// What the program draws random numbers from.
std::vector<at::Generator> generators_of(const capture::Trace& trace) {
  std::vector<at::Generator> all;
  const auto add = [&](const at::Generator& generator) {
    if (std::ranges::find(all, generator) == all.end()) all.push_back(generator);
  };
  ir::for_each_node(*trace.graph, [&](const ir::Node* node) {
    if (node->op != ir::Op::call) return;
    if (node->text_attr("target").starts_with("braze::") || capture::draws_numbers(capture::operator_of(*node)))
      std::ranges::for_each(capture::default_generators(), add);
  });
  for (const c10::IValue& object : trace.objects)
    if (object.isGenerator()) add(object.toGenerator());
  return all;
}

/// No garbage is collected while it lives. A collection runs finalizers and callbacks of weak references: Python
/// code that would end the capture, and that nobody runs a second time after it was refused.
class CollectionPause {
 public:
  CollectionPause() {
    static const bool told_of_forks = pthread_atfork(nullptr, nullptr, keep_own) == 0;
    static_cast<void>(told_of_forks);
    if (all_ == 0) was_enabled_ = PyGC_Disable() != 0;
    ++all_;
    ++own_;
  }
  ~CollectionPause() {
    --own_;
    if (--all_ == 0 && was_enabled_) PyGC_Enable();
  }
  CollectionPause(const CollectionPause&) = delete;
  CollectionPause& operator=(const CollectionPause&) = delete;

 private:
  /// In a forked child, where the other threads and their pauses are gone.
  static void keep_own() {
    const bool was_paused = all_ > 0;
    all_ = own_;
    if (was_paused && all_ == 0 && was_enabled_) PyGC_Enable();
  }
  // The collector has one switch for the whole process, and captures of several threads overlap: an operator lets
  // go of the GIL, which guards these.
  static inline int all_ = 0;
  static inline thread_local int own_ = 0;
  static inline bool was_enabled_ = false;
};

/// The exception that the thread is handling is as before afterwards: a run that ends in the middle of a handler
/// leaves its own there.
class HandledExceptionScope {
 public:
  HandledExceptionScope() : item_(PyThreadState_Get()->exc_info), before_(guards::Ref::borrow(item_->exc_value)) {}
  ~HandledExceptionScope() { guards::Ref::steal(std::exchange(item_->exc_value, before_.release())); }
  HandledExceptionScope(const HandledExceptionScope&) = delete;
  HandledExceptionScope& operator=(const HandledExceptionScope&) = delete;

 private:
  _PyErr_StackItem* item_;
  guards::Ref before_;
};

/// Nodes that compute something: neither numbers nor views.
size_t count_operators(const ir::Graph& graph) {
  size_t count = graph.mutations().size();
  for (const ir::Node* node = graph.first(); node; node = node->next) {
    const ir::OpKind kind = ir::info(node->op).kind;
    count += kind != ir::OpKind::Source && kind != ir::OpKind::View;
  }
  return count;
}

Captured suppressed(const std::string& error) {
  warn(concat("suppress_errors makes a call run natively: ", error));
  return {.kind = Captured::Kind::refused, .place = BreakReason::told(error)};
}

}  // namespace

std::string text_of(PyObject* string) {
  const char* text = string && PyUnicode_Check(string) ? PyUnicode_AsUTF8(string) : nullptr;
  return text ? text : "?";
}

CapturedRun::CapturedRun(const std::string& name, const Settings& settings, TorchWorld::Others others,
                         SizeHistory& history)
    : settings_(settings),
      history_(history),
      name_(name),
      tracer_(name, &times_),
      world_(tracer_, guards_, others, history, settings.backend->takes_symbols(), settings.dynamic),
      watcher_(guards_, world_) {
  watcher_.values().arrays().note_in(
      [&history](const std::string& path, size_t contents) { return history.note_array(path, contents); });
  load_library_paths();  // Which an abandoned run asks for, when no Python code may run.
  guards_.torch_state();
}

void CapturedRun::record(const std::function<void()>& body) {
  preparing_.reset();
  const PhaseTimer timer(&times_, "capture");
  const CollectionPause no_collections;
  const HandledExceptionScope handled;
  const ModesScope modes;
  const capture::SwitchesAtBegin switches;
  const capture::FiltersAtBegin filters;
  world_.modes().begin();
  function_modes_ = count_function_modes();
  UserLineScope lines;
  std::optional<capture::TapeRecorder::Scope> taping;
  const bool wants_tape = settings_.backend->wants_tape();
  if (wants_tape || (settings_.backend->is_differentiable() && at::GradMode::is_enabled())) {
    tape_recorder_.emplace(/*can_be_lost=*/!wants_tape);
    taping.emplace(&*tape_recorder_);
  }
  capture::Tracer::Scope tracing(tracer_);
  const runtime::RefuseValues refuse;
  const capture::Gate gate;
  const capture::EffectTimes effects;
  const TransformsScope transforms;  // Ends first: it asks for the dispatch state that the others put back.
  body();
  std::vector<at::Tensor> tensors;
  for (const guards::Ref& output : outputs_) tensors.push_back(THPVariable_Unpack(output.get()));
  if (world_.rows()->shows_copy(tensors)) {
    shows_rows_ = history_.leave_rows();
    throw GivenUp{Captured::Kind::refused, Break::item};
  }
  trace_ = tracer_.finish(tensors);
  op_count_ = count_operators(*trace_.graph);
  if (trace_.any_requires_grad && settings_.backend->is_differentiable()) {
    const PhaseTimer differentiating(&times_, "capture/backward");
    differentiate(tensors, effects);
    // With numbers for sizes it may be possible.
    if (!trace_.gradients && !trace_.symbols.empty()) {
      history_.give_up();
      throw GivenUp{Captured::Kind::refused, BreakReason::told(not_differentiated_)};
    }
  }
  guards_.kernels(gate.kernels());
  if (wants_tape) {
    for (const TorchWorld::Tensor& tensor : world_.tensors())
      if (tensor.is_argument) tape_recorder_->add_argument(THPVariable_Unpack(tensor.object));
    tape_ = tape_recorder_->finish(trace_, tensors);
  }
}

void CapturedRun::differentiate(const std::vector<at::Tensor>& outputs, const capture::EffectTimes& effects) {
  using guards::SavedTensorHooks;
  const SavedTensorHooks hooks = guards::saved_tensor_hooks();
  // They see what eager saves, one by one, and may change it: a backward that saves something else is another one.
  if (hooks == SavedTensorHooks::other) {
    not_differentiated_ = "hooks on saved tensors are the user's code";
    return;
  }
  not_differentiated_ = tracer_.differentiate(trace_, outputs);
  using Own = capture::Recorder::OwnGradients;
  if (trace_.gradients && !trace_.gradients->no_tape.empty() && tracer_.impl().own_gradients == Own::some) {
    not_differentiated_ =
        trace_.gradients->no_tape;  // What takes gradients itself may well be differentiated twice.
    trace_.gradients.reset();
    return;
  }
  const bool is_checkpointed = hooks != SavedTensorHooks::none;
  if (!trace_.gradients || !is_checkpointed || (!changes_objects_ && effects.saves_since())) return;
  trace_.gradients.reset();
  not_differentiated_ =
      "what is checkpointed does something after the last tensor that is saved, where its second run ends";
}

std::optional<ModesChange> CapturedRun::modes_change() const {
  Modes now = Modes::now();
  now.autocast_cache = world_.autocast_cache();
  return now == modes_before_ ? std::nullopt : std::optional<ModesChange>({modes_before_, now});
}

void CapturedRun::want_arguments() {
  for (const TorchWorld::Tensor& tensor : world_.tensors()) {
    if (!tensor.is_argument) continue;
    if (guards_.want(tensor.source) != tensor_count_++)
      throw InternalError("an argument of the graph is wanted twice");
    options_.example_arguments.push_back(THPVariable_Unpack(tensor.object));
  }
  for (const TorchSizes::FloatArgument& one : world_.sizes().float_arguments())
    options_.example_arguments.insert(options_.example_arguments.begin() + static_cast<ptrdiff_t>(one.place),
                                      one.example);
}

namespace {

/// Reading the path anew gives the same, unless the run has changed something.
bool can_be_read_again(const guards::Source* source) {
  for (; source; source = source->parent)
    if (source->kind == guards::SourceKind::next_item || source->kind == guards::SourceKind::next_key) return false;
  return true;
}

}  // namespace

/// A tensor in a place where the run has put another one, or that it has given another memory: state that each call
/// replaces. The next capture takes it as an argument. While the effects are there.
void CapturedRun::note_replaced(const guards::Call& call) {
  const capture::ReplacedData* data = capture::replaced_data();
  for (const TorchWorld::Tensor& tensor : world_.tensors()) {
    if (tensor.is_argument || !can_be_read_again(tensor.source)) continue;
    PyObject* now = guards::evaluate(tensor.source, call);
    if (now && (now != tensor.object || (data && data->contains(THPVariable_Unpack(tensor.object)))))
      replaces_bound_ |= history_.note_replaced(guards::to_text(tensor.source));
  }
}

bool CapturedRun::is_outdated() {
  const bool registers = registrations_ && *registrations_ != guards::abc_token() && history_.note_registered();
  return replaces_bound_ || registers;
}

void CapturedRun::take_effects(Rebuilder& rebuilder, const guards::Call& call) {
  interpreter::Values& values = watcher_.values();
  if (values.effects().locks().are_any()) throw NotRebuilt{"a lock is held"};
  if (count_function_modes() != function_modes_) throw NotRebuilt{"a mode of torch functions is entered or left"};
  if (watcher_.leaves_generator()) throw NotRebuilt{"a generator with try or with is left unfinished"};
  for (const interpreter::Effect& effect : values.effects().log()) rebuilder.effect(effect);
  changes_objects_ = !values.effects().log().empty() || values.effects().draws().count() > 0;
  std::map<uint32_t, Specialisation::Drawn> drawn;  // In an order of their own, not by address.
  for (PyObject* generator : values.effects().draws().generators()) {
    const std::vector<guards::Ref>& known = values.effects().draws().of(generator);
    const guards::Source* source = values.source_of(generator);
    guards::Ref draws = guards::Ref::steal(PyTuple_New(std::ssize(known)));
    if (!draws) throw std::bad_alloc();
    for (size_t k = 0; k < known.size(); ++k)
      PyTuple_SET_ITEM(draws.get(), static_cast<Py_ssize_t>(k), Py_NewRef(known[k].get()));
    drawn[source->number] = {guards_.want(source), std::move(draws)};
  }
  for (auto& [number, one] : drawn) drawn_.push_back(std::move(one));
  values.guard_aliasing();
  guard_iterators(values);
  values.drops().guard();
  constexpr size_t worth_a_guard = 8;  // Fewer fit below any limit under which Python works.
  if (watcher_.deepest() > worth_a_guard) guards_.recursion(watcher_.deepest());
  note_replaced(call);
  values.effects().undo();
}

void CapturedRun::hold_outputs(const Rebuilder& rebuilder, Outcome& outcome) {
  for (PyObject* output : rebuilder.outputs()) {
    using Kind = Outcome::Output::Kind;
    if (const ir::Size* size = watcher_.values().numbers().size_of(output)) {
      outcome.outputs.push_back({Kind::size, static_cast<uint32_t>(outcome.sizes.add(*size))});
    } else if (const auto derived = watcher_.values().numbers().derived_of(output)) {
      outcome.outputs.push_back({Kind::derived, static_cast<uint32_t>(outcome.derived.size())});
      outcome.derived.push_back(derived);
    } else {
      outcome.outputs.push_back({Kind::tensor, static_cast<uint32_t>(outputs_.size())});
      outputs_.push_back(guards::Ref::borrow(output));
    }
  }
}

std::unique_ptr<Specialisation> CapturedRun::compile(Outcome outcome) {
  if (loses_gradients()) throw wants_gradients();
  if (!trace_.warnings.empty())
    throw GivenUp{Captured::Kind::refused, {Break::value_read, trace_.warnings.front()}};
  keep_bound();
  std::vector<at::Generator> generators = generators_of(trace_);
  const bool writes = !trace_.graph->mutations().empty();
  guards::NumberReads numbers = guard_sizes();
  std::vector<Specialisation::FloatArgument> float_arguments;
  for (const TorchSizes::FloatArgument& one : world_.sizes().float_arguments())
    float_arguments.push_back({one.place, one.derived});
  const auto asks = [](const guards::Guard& guard) { return guard.kind == guards::GuardKind::abc_registrations; };
  if (const auto first = std::ranges::find_if(guards_.guards(), asks); first != guards_.guards().end())
    registrations_ = first->bits;
  guards::GuardProgram guards = finish_guards();
  std::shared_ptr<const SegmentProgram> program =
      settings_.backend->compile({std::move(trace_), std::move(tape_), std::move(options_), std::move(times_)});
  if (program->argument_count() != tensor_count_ + float_arguments.size())
    throw GivenUp{Captured::Kind::refused, {"an argument of the graph is not passed"}};
  return std::make_unique<Specialisation>(Specialisation{.guards = std::move(guards),
                                                         .program = std::move(program),
                                                         .tensor_count = tensor_count_,
                                                         .outcome = std::move(outcome),
                                                         .break_reason = {},
                                                         .name = name_,
                                                         .begins = {},
                                                         .op_count = op_count_,
                                                         .numbers = std::move(numbers),
                                                         .generators = std::move(generators),
                                                         .float_arguments = std::move(float_arguments),
                                                         .drawn = std::move(drawn_),
                                                         .writes = writes});
}

/// Tensors that the program binds are free to die between its runs: the guards find them, and a replay holds them
/// while it runs. A gradient is held by its tensor alone, in a way that Python's references do not see.
guards::NumberReads CapturedRun::guard_sizes() {
  if (is_enabled(Event::recompiles))
    for (const std::string& text : trace_.specialised)
      emit(Event::recompiles, concat(name_, ": a size is specialised: ", text));
  const TorchSizes& known = world_.sizes();
  if (is_enabled(Event::recompiles)) tell_marks();
  // One that was guarded by its rank alone may have come out with numbers for all its sizes.
  const auto varies = [&](const TorchWorld::Tensor& tensor) {
    return tensor.is_argument && known.varies(tensor.source);
  };
  if (trace_.symbols.empty() && known.floats().empty() && std::ranges::none_of(world_.tensors(), varies)) return {};
  std::vector<const guards::Source*> sources;
  std::vector<const ir::Input*> inputs;
  std::vector<uint32_t> arguments;  // By graph input.
  for (const TorchWorld::Tensor& tensor : world_.tensors())
    if (tensor.is_argument) sources.push_back(tensor.source);
  const size_t tensors = sources.size();  // Behind them, a joint graph takes what its backward is given.
  size_t place = 0;
  for (const ir::Input& input : trace_.graph->inputs()) {
    arguments.push_back(static_cast<uint32_t>(inputs.size()));
    const auto is_float = [&](const TorchSizes::FloatArgument& one) { return one.place == place; };
    if (input.kind != ir::InputKind::argument) continue;
    if (std::ranges::none_of(known.float_arguments(), is_float)) inputs.push_back(&input);
    ++place;
  }
  BRAZE_CHECK(inputs.size() >= tensors, "an input of the graph for each tensor");
  guards::NumberReads reads, replay_reads;
  for (const guards::Source* source : known.floats()) {
    reads.floats.push_back(static_cast<uint32_t>(sources.size()));
    replay_reads.floats.push_back(guards_.want(source));
    sources.push_back(source);
  }
  size_t next_number = 0;
  for (const capture::SymbolSource& symbol : trace_.symbols) {
    using Kind = capture::SymbolSource::Kind;
    using ReadKind = guards::SizeRead::Kind;
    if (symbol.kind == Kind::number) {
      const auto& [source, derived, part] = known.numbers().at(next_number++);
      if (derived) {
        reads.symbols.push_back({ReadKind::derived, 0, 0, derived, part});
        replay_reads.symbols.push_back(reads.symbols.back());
        continue;
      }
      reads.symbols.push_back({ReadKind::number, static_cast<uint32_t>(sources.size()), 0});
      replay_reads.symbols.push_back({ReadKind::number, guards_.want(source), 0});
      sources.push_back(source);
    } else {
      const ReadKind kind = symbol.kind == Kind::size ? ReadKind::size : ReadKind::stride;
      reads.symbols.push_back({kind, arguments.at(symbol.input), symbol.dim});
      replay_reads.symbols.push_back(reads.symbols.back());
    }
  }
  std::vector<guards::SizeFit> fits;
  for (uint32_t k = 0; k < tensors; ++k) {
    if (!known.varies(sources[k])) continue;
    const ir::Type& type = *inputs[k]->value->type;
    using ReadKind = guards::SizeRead::Kind;
    for (uint32_t dim = 0; dim < type.sizes.size(); ++dim) {
      fits.push_back({{ReadKind::size, k, dim}, type.sizes.symbolic()[dim]});
      fits.push_back({{ReadKind::stride, k, dim}, type.strides.symbolic()[dim]});
    }
  }
  guards_.shapes(sources, guards::make_shapes_payload(trace_.graph, std::move(reads), fits, known.tests()));
  return replay_reads;
}

/// Sizes that were marked as dynamic, and are numbers of this capture nevertheless.
void CapturedRun::tell_marks() {
  std::vector<const ir::Type*> types;  // Of what is passed, tensors before what varies besides.
  for (const ir::Input& input : trace_.graph->inputs())
    if (input.kind == ir::InputKind::argument) types.push_back(input.value->type);
  const auto is_float = [&](size_t place) {
    return std::ranges::any_of(world_.sizes().float_arguments(),
                               [&](const TorchSizes::FloatArgument& one) { return one.place == place; });
  };
  size_t place = 0;
  for (const TorchWorld::Tensor& tensor : world_.tensors()) {
    if (!tensor.is_argument) continue;
    while (is_float(place)) ++place;
    const ir::Type& type = *types.at(place++);
    for (const auto& [dim, varying] : marks_of(tensor.object).dynamic) {
      if (dim < 0 || dim >= static_cast<int64_t>(type.rank())) continue;
      const ir::Size size = type.sizes.symbolic()[static_cast<size_t>(dim)];
      if (!size.is_constant()) continue;
      emit(Event::recompiles, concat(name_, ": ", guards::to_text(tensor.source), ".shape[", dim,
                                     "] was marked as dynamic, and is ", size.constant(), " to what is compiled"));
    }
  }
}

void CapturedRun::keep_bound() {
  for (const TorchWorld::Tensor& tensor : world_.tensors()) {
    const bool is_gradient = tensor.source->kind == guards::SourceKind::member &&
                             static_cast<guards::Member>(tensor.source->index) == guards::Member::tensor_grad;
    if (tensor.is_argument || is_gradient) continue;
    guards_.want(tensor.source);
    options_.kept_elsewhere.insert(THPVariable_Unpack(tensor.object).unsafeGetTensorImpl());
  }
}

bool CapturedRun::loses_gradients() const {
  return trace_.any_requires_grad && !trace_.gradients && !(tape_ && tape_->has_history());
}

GivenUp CapturedRun::wants_gradients() const {
  if (not_differentiated_.empty()) return {Captured::Kind::gradients, Break::gradients};
  return {Captured::Kind::gradients, {Break::gradients, not_differentiated_}};
}

size_t CapturedRun::decisions() {
  const capture::Symbols* symbols = tracer_.symbols();
  return world_.sizes().tests().size() + (symbols ? symbols->env->guards().size() : 0);
}

guards::GuardProgram CapturedRun::finish_guards() {
  const PhaseTimer timer(&times_, "guards");
  world_.guard_aliasing();
  values_asked_.finish();
  return guards::GuardProgram(std::move(guards_));
}

void tell_numbers(const Place& place) {
  if (is_enabled(Event::recompiles)) emit(Event::recompiles, concat("sizes stay numbers: ", place.text()));
}

bool is_one_place(const Place& with_symbols, const Place& without) {
  return without.line != 0 && with_symbols.line == without.line && with_symbols.file == without.file &&
         with_symbols.reason == without.reason;
}

Captured attempt(const Settings& settings, const std::function<Captured()>& record) {
  try {
    return record();
  } catch (const GivenUp& error) {
    return {.kind = error.kind, .place = error.place};
  } catch (const NotRebuilt& error) {
    return {.kind = Captured::Kind::refused, .place = {Break::result_not_rebuilt, error.reason}};
  } catch (const UserError& error) {
    return {.kind = Captured::Kind::refused, .place = BreakReason::told(error.what())};
  } catch (const InternalError& error) {
    if (!settings.suppress_errors) throw;
    return suppressed(concat("a defect of braze: ", error.what()));
  } catch (const py::error_already_set& error) {  // Of a backend of the user's.
    if (!settings.suppress_errors || !error.matches(PyExc_Exception)) throw;
    return suppressed(concat("the backend raises ", error.what()));
  } catch (const std::exception& error) {  // No memory, no more threads: eager may have enough.
    return {.kind = Captured::Kind::failed, .place = BreakReason::told(concat("compiling failed: ", error.what()))};
  }
}

}  // namespace braze::python
