// python/compile/capture.cpp
#include "python/compile/capture.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "capture/gate.h"
#include "capture/generator.h"
#include "capture/library_call.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "ir/graph.h"
#include "python/compile/announce.h"
#include "python/compile/events.h"
#include "python/compile/modes.h"
#include "python/compile/rebuild.h"
#include "python/compile/torch_world.h"
#include "python/compile/transforms_scope.h"
#include "python/errors.h"
#include "python/guards/scalar.h"
#include "python/guards/shape_guard.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/watch/watcher.h"
#include "python/source.h"
#include "support/error.h"

namespace braze::python {

namespace {

using interpreter::Activation;
using interpreter::Break;
using interpreter::BreakReason;
using interpreter::FrameRun;
using interpreter::RootFrame;
using interpreter::Step;

/// Why a capture came to nothing.
struct GivenUp {
  Captured::Kind kind;
  Place place;
};

std::string text_of(PyObject* string) {
  const char* text = string && PyUnicode_Check(string) ? PyUnicode_AsUTF8(string) : nullptr;
  return text ? text : "?";
}

Place place_in(PyCodeObject* code, int offset, std::string reason) {
  const int line = PyCode_Addr2Line(code, offset * static_cast<int>(sizeof(interpreter::CodeUnit)));
  return {BreakReason::told(reason), text_of(code->co_filename), line};
}

/// Nodes that compute something: neither numbers nor views.
size_t count_operators(const ir::Graph& graph) {
  size_t count = graph.mutations().size();
  for (const ir::Node* node = graph.first(); node; node = node->next) {
    const ir::OpKind kind = ir::info(node->op).kind;
    count += kind != ir::OpKind::Source && kind != ir::OpKind::View;
  }
  return count;
}

/// What the program draws random numbers from.
std::vector<at::Generator> generators_of(const capture::Trace& trace) {
  std::vector<at::Generator> all;
  const auto add = [&](const at::Generator& generator) {
    if (std::ranges::find(all, generator) == all.end()) all.push_back(generator);
  };
  ir::for_each_node(*trace.graph, [&](const ir::Node* node) {
    if (node->op != ir::Op::call) return;
    if (node->text_attr("target").starts_with("braze::") ||
        capture::operator_of(*node).hasTag(at::Tag::nondeterministic_seeded))
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
  // go of Python's lock, which guards these.
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

/// The guards, the tracer and the watcher of one captured run.
class Recording {
 public:
  Recording(const std::string& name, const Settings& settings, TorchWorld::Others others, SizeHistory& history)
      : settings_(settings),
        history_(history),
        name_(name),
        tracer_(name, &times_),
        world_(tracer_, guards_, others, settings.backend->takes_symbols() ? &history : nullptr, settings.dynamic),
        watcher_(guards_, world_) {
    // Operators without a deterministic form must raise, as only the kernels themselves know how.
    if (at::globalContext().deterministicAlgorithms()) throw GivenUp{Captured::Kind::refused, Break::deterministic};
    guards_.torch_state();
  }

 protected:
  /// Runs `body`, which is to call collect(), on tracers.
  template <typename Body>
  void record(Body&& body) {
    preparing_.reset();
    const PhaseTimer timer(&times_, "capture");
    const CollectionPause no_collections;
    const HandledExceptionScope handled;
    const ModesScope modes;
    SourceScope sources;
    std::optional<capture::TapeRecorder::Scope> taping;
    if (settings_.backend->wants_tape()) {
      tape_recorder_.emplace();
      taping.emplace(*tape_recorder_);
    }
    capture::Tracer::Scope tracing(tracer_);
    const runtime::RefuseValues refuse;
    const capture::Gate gate;
    const TransformsScope transforms;  // Ends first: it asks for the dispatch state that the others put back.
    body();
    guards_.kernels(gate.kernels());
    std::vector<at::Tensor> tensors;
    for (const guards::Ref& output : outputs_) tensors.push_back(THPVariable_Unpack(output.get()));
    trace_ = tracer_.finish(tensors);
    if (tape_recorder_) {
      for (const TorchWorld::Tensor& tensor : world_.tensors())
        if (tensor.is_argument) tape_recorder_->add_argument(THPVariable_Unpack(tensor.object));
      tape_ = tape_recorder_->finish(trace_, tensors);
    }
  }

  /// Nothing if the run leaves them as they were.
  std::optional<ModesChange> modes_change() const {
    Modes now = Modes::now();
    now.autocast_cache = world_.autocast_cache();
    return now == modes_before_ ? std::nullopt : std::optional<ModesChange>({modes_before_, now});
  }

  /// The arguments of the graph are the first values of the guards. Before any other is wanted.
  void want_arguments() {
    for (const TorchWorld::Tensor& tensor : world_.tensors()) {
      if (!tensor.is_argument) continue;
      if (guards_.want(tensor.source) != argument_count_++)
        throw InternalError("an argument of the graph is wanted twice");
      options_.example_arguments.push_back(THPVariable_Unpack(tensor.object));
    }
  }

  /// What the run changed of objects that existed before: a replay will do it again. Then it is undone.
  void take_effects(Rebuilder& rebuilder) {
    interpreter::Values& values = watcher_.values();
    if (values.effects().holds_lock()) throw NotRebuilt{"a lock is held"};
    if (watcher_.leaves_generator()) throw NotRebuilt{"a generator with try or with is left unfinished"};
    for (const interpreter::Effect& effect : values.effects().log()) rebuilder.effect(effect);
    values.guard_aliasing();
    values.guard_iterators();
    values.guard_drops();
    constexpr size_t worth_a_guard = 8;  // Fewer fit below any limit under which Python works.
    if (watcher_.deepest() > worth_a_guard) guards_.recursion(watcher_.deepest());
    values.effects().undo();
  }

  void hold_outputs(const Rebuilder& rebuilder, Outcome& outcome) {
    for (PyObject* output : rebuilder.outputs()) {
      const ir::Size* size = watcher_.values().size_of(output);
      outcome.outputs.push_back(size ? static_cast<int32_t>(outcome.sizes.add(*size)) : -1);
      if (!size) outputs_.push_back(guards::Ref::borrow(output));
    }
  }

  /// Not while tracing.
  std::unique_ptr<Specialisation> compile(Outcome outcome) {
    if (trace_.any_requires_grad) throw wants_gradients();
    if (!trace_.warnings.empty())
      throw GivenUp{Captured::Kind::refused, BreakReason::told(trace_.warnings.front())};
    const size_t op_count = count_operators(*trace_.graph);
    keep_bound();
    std::vector<at::Generator> generators = generators_of(trace_);
    guards::SymbolReads symbols = guard_sizes();
    guards::GuardProgram guards = finish_guards();
    std::shared_ptr<const SegmentProgram> program =
        settings_.backend->compile({std::move(trace_), std::move(tape_), std::move(options_), std::move(times_)});
    if (program->argument_count() != argument_count_)
      throw GivenUp{Captured::Kind::refused, {"an argument of the graph is not passed"}};
    return std::make_unique<Specialisation>(Specialisation{.guards = std::move(guards),
                                                           .program = std::move(program),
                                                           .argument_count = argument_count_,
                                                           .outcome = std::move(outcome),
                                                           .break_reason = {},
                                                           .name = name_,
                                                           .begins = {},
                                                           .op_count = op_count,
                                                           .symbols = std::move(symbols),
                                                           .generators = std::move(generators)});
  }

  /// Where replays read the values of symbols; what must hold of them is guarded.
  guards::SymbolReads guard_sizes() {
    if (trace_.symbols.empty()) return {};
    if (is_enabled(Event::recompiles))
      for (const std::string& text : trace_.specialised)
        emit(Event::recompiles, concat(name_, ": a size is specialised: ", text));
    std::vector<const guards::Source*> sources;
    std::vector<const ir::Input*> inputs;
    std::vector<uint32_t> arguments;  // By graph input.
    for (const TorchWorld::Tensor& tensor : world_.tensors())
      if (tensor.is_argument) sources.push_back(tensor.source);
    for (const ir::Input& input : trace_.graph->inputs()) {
      arguments.push_back(static_cast<uint32_t>(inputs.size()));
      if (input.kind == ir::InputKind::argument) inputs.push_back(&input);
    }
    guards::SymbolReads reads, replay_reads;
    size_t next_number = 0;
    for (const capture::SymbolSource& symbol : trace_.symbols) {
      using Kind = capture::SymbolSource::Kind;
      using ReadKind = guards::SizeRead::Kind;
      if (symbol.kind == Kind::number) {
        const guards::Source* source = world_.numbers().at(next_number++);
        reads.push_back({ReadKind::number, static_cast<uint32_t>(sources.size()), 0});
        replay_reads.push_back({ReadKind::number, guards_.want(source), 0});
        sources.push_back(source);
      } else {
        const ReadKind kind = symbol.kind == Kind::size ? ReadKind::size : ReadKind::stride;
        reads.push_back({kind, arguments.at(symbol.input), symbol.dim});
        replay_reads.push_back(reads.back());
      }
    }
    std::vector<guards::SizeFit> fits;
    for (uint32_t k = 0; k < inputs.size(); ++k) {
      if (!world_.varies(sources[k])) continue;
      const ir::Type& type = *inputs[k]->value->type;
      using ReadKind = guards::SizeRead::Kind;
      for (uint32_t dim = 0; dim < type.sizes.size(); ++dim) {
        fits.push_back({{ReadKind::size, k, dim}, type.sizes.symbolic()[dim]});
        fits.push_back({{ReadKind::stride, k, dim}, type.strides.symbolic()[dim]});
      }
    }
    guards_.shapes(sources, guards::make_shapes_payload(trace_.graph, std::move(reads), fits));
    return replay_reads;
  }

  /// Tensors that the program binds are free to die between its runs: the guards find them, and a replay holds them
  /// while it runs. A gradient is held by its tensor alone, in a way that Python's references do not see.
  void keep_bound() {
    for (const TorchWorld::Tensor& tensor : world_.tensors()) {
      const bool is_gradient = tensor.source->kind == guards::SourceKind::member &&
                               static_cast<guards::Member>(tensor.source->index) == guards::Member::tensor_grad;
      if (tensor.is_argument || is_gradient) continue;
      guards_.want(tensor.source);
      options_.kept_elsewhere.insert(THPVariable_Unpack(tensor.object).unsafeGetTensorImpl());
    }
  }

  /// What `record` gives, or why it gave up. If there were symbols, the next capture is told to do without them.
  template <typename Record>
  Captured with_symbols(Record&& record) {
    const auto failed = [&] {
      if (world_.has_sizes()) history_.give_up();
    };
    try {
      Captured captured = record();
      if (!captured.made) failed();
      return captured;
    } catch (const InternalError& error) {  // Code that knows numbers only.
      if (!world_.has_sizes()) throw;
      failed();
      return {.kind = Captured::Kind::refused, .place = BreakReason::told(error.what())};
    } catch (...) {
      failed();
      throw;
    }
  }

  static GivenUp wants_gradients() { return {Captured::Kind::gradients, Break::gradients}; }

  guards::GuardProgram finish_guards() {
    const PhaseTimer timer(&times_, "guards");
    world_.guard_aliasing();
    return guards::GuardProgram(std::move(guards_));
  }

  const Modes modes_before_ = Modes::now();
  const Settings& settings_;
  SizeHistory& history_;
  std::string name_;
  PhaseTimes times_;
  /// What a run needs before it begins is part of the capture: in a process's first, finding torch's operators.
  std::optional<PhaseTimer> preparing_{std::in_place, &times_, "capture"};
  capture::Tracer tracer_;
  guards::GuardSet guards_;
  TorchWorld world_;
  interpreter::Watcher watcher_;
  guards::RecipeBuilder builder_;
  std::vector<guards::Ref> outputs_;  ///< Tensors that the run computed and its end needs.
  capture::Trace trace_;
  size_t argument_count_ = 0;

 private:
  std::optional<capture::TapeRecorder> tape_recorder_;
  std::optional<capture::Tape> tape_;
  runtime::ProgramOptions options_;
};

// ---- calls
// ----------------------------------------------------------------------------------------------------------

class CallRecording : Recording {
 public:
  using Recording::with_symbols;
  CallRecording(const py::object& function, const Arguments& arguments, const Settings& settings, bool is_first,
                SizeHistory& history)
      : Recording(py::str(py::getattr(function, "__name__", py::str("compiled"))).cast<std::string>(), settings,
                  is_first ? TorchWorld::Others::none : TorchWorld::Others::attributes, history),
        function_(function),
        arguments_(arguments) {}

  Captured run() {
    learn_call();
    Outcome outcome;
    record([&] {
      const py::object result = interpret();
      want_arguments();
      Rebuilder rebuilder(builder_, watcher_.values(), guards_);
      const guards::RecipeNode node = rebuilder.node(result.ptr());
      take_effects(rebuilder);
      hold_outputs(rebuilder, outcome);
      outcome.recipe = std::move(builder_).finish({&node, 1});
      outcome.modes = modes_change();
    });
    if (trace_.any_requires_grad)
      return {.kind = Captured::Kind::gradients,
              .place = wants_gradients().place,
              .wanting = finish_guards(),
              .op_count = count_operators(*trace_.graph)};
    return {.kind = Captured::Kind::whole, .made = compile(std::move(outcome))};
  }

 private:
  void learn_call() {
    const guards::Call call = arguments_.call();
    if (world_.may_vary(arguments_.all())) tracer_.prepare_symbols();
    given_.assign(call.arguments, call.arguments + call.size());
    guards_.call_shape(call);
    interpreter::Values& values = watcher_.values();
    guards::SourceTable& sources = values.sources();
    if (!values.learn(function_.ptr(), sources.object(function_.ptr(), "f")))
      throw GivenUp{Captured::Kind::refused, {"a function of its kind"}};
    for (uint32_t i = 0; i < call.size(); ++i) {
      const std::string name = argument_name(i);
      if (PyObject* one = values.vary(call.arguments[i], sources.argument(i, name))) {
        given_[i] = one;
        continue;
      }
      if (!values.learn(call.arguments[i], sources.argument(i, name)))
        throw GivenUp{Captured::Kind::refused, BreakReason::told("argument " + name + " cannot be guarded")};
      if (interpreter::is_builtin_container(call.arguments[i])) values.absorb(call.arguments[i]);
    }
    world_.seal();
  }

  std::string argument_name(uint32_t i) const {
    const guards::Call call = arguments_.call();
    if (i >= call.positional) return text_of(PyTuple_GET_ITEM(call.keywords, i - call.positional));
    PyObject* function = function_.ptr();
    if (!PyFunction_Check(function)) return concat("args[", i, "]");
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    if (static_cast<int>(i) >= code->co_argcount) return concat("args[", i, "]");
    return text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i));
  }

  py::object interpret() {
    const guards::Call call = arguments_.call();
    PyObject* result = nullptr;
    if (watcher_.begin(function_.ptr(), given_.data(), static_cast<Py_ssize_t>(call.size()))) {
      const interpreter::Scope scope(&watcher_);
      result = PyObject_Vectorcall(function_.ptr(), given_.data(),
                                   arguments_.flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, arguments_.names);
    }
    py::object owned = py::reinterpret_steal<py::object>(result);
    if (watcher_.abandoned()) {
      PyErr_Clear();
      if (tracer_.wants_gradients()) throw wants_gradients();
      throw GivenUp{watcher_.is_for_later() ? Captured::Kind::later : Captured::Kind::broken, watcher_.place()};
    }
    if (!result) {
      const py::error_already_set error;  // Takes the exception; raised again by the native run.
      throw GivenUp{Captured::Kind::broken,
                    {Break::raises, py::str(error.type().attr("__name__")).cast<std::string>()}};
    }
    return owned;
  }

  const py::object& function_;
  const Arguments& arguments_;
  std::vector<PyObject*> given_;  ///< The arguments; numbers that vary as what stands for them.
};

// ---- frames
// ---------------------------------------------------------------------------------------------------------

class FrameRecording : Recording {
 public:
  using Recording::with_symbols;
  FrameRecording(FrameRun& run, CodeState& code, const Settings& settings, uint64_t stop)
      : Recording(text_of(run.code()->co_name), settings,
                  code.has_other_tensors(run.offset()) ? TorchWorld::Others::parameters : TorchWorld::Others::none,
                  code.starts[run.offset()].sizes),
        run_(run),
        code_(code),
        stop_(stop) {}

  /// Runs the frame. Throws GivenUp.
  void record_run() {
    const std::vector<PyObject*> values = frame_values(run_);
    if (world_.may_vary(values)) tracer_.prepare_symbols();
    RootFrame root(run_.activation(), make_sources(values), stop_,
                   [&](Activation& a, int offset) { collect(a, offset); });
    root_ = &root;
    begin_ = run_.offset();
    handled_before_ = run_.activation().thread->exc_info->exc_value;
    record([&] {
      world_.seal();
      watcher_.begin(root);
      finish_run(run_.run(watcher_));
    });
  }

  /// When the frame has been put back. Throws GivenUp.
  Captured finish() {
    Captured captured{.kind = outcome_.returns ? Captured::Kind::whole : Captured::Kind::broken,
                      .place = watcher_.place(),
                      .breakpoints = breakpoints_};
    if (count_operators(*trace_.graph) == 0) {
      // What raises says nothing of the way that other arguments go.
      captured.kind = raises_ ? Captured::Kind::refused : Captured::Kind::idle;
      return captured;
    }
    captured.made = compile(std::move(outcome_));
    describe(*captured.made);
    return captured;
  }

  /// The run did not end well: it should end before this instruction, counted from 1. 0: it ended well, or there is
  /// no better place.
  uint64_t repeat_until() const { return repeat_until_; }
  const std::vector<int>& breakpoints() const { return breakpoints_; }

 private:
  std::vector<const guards::Source*> make_sources(const std::vector<PyObject*>& values) {
    PyCodeObject* code = run_.code();
    guards::SourceTable& sources = guards_.sources();
    const guards::Source* function = sources.argument(0, text_of(code->co_name));
    watcher_.values().learn_as(values[0], function);
    std::vector<const guards::Source*> slots;
    for (size_t k = 1; k < values.size(); ++k) {
      const auto slot = static_cast<Py_ssize_t>(k - 1);
      const bool is_named = slot < code->co_nlocalsplus;
      const std::string name = is_named ? text_of(PyTuple_GET_ITEM(code->co_localsplusnames, slot))
                                        : concat("operand ", slot - code->co_nlocalsplus);
      slots.push_back(values[k] ? sources.argument(static_cast<uint32_t>(k), name) : nullptr);
    }
    own_sources_ = slots;
    own_sources_.resize(static_cast<size_t>(code->co_nlocalsplus + code->co_stacksize));
    return slots;
  }

  void finish_run(Step step) {
    PyErr_Clear();
    if (tracer_.wants_gradients()) throw wants_gradients();  // Here and now: it is no breakpoint.
    if (watcher_.is_for_later()) {
      breakpoints_.clear();
      throw GivenUp{Captured::Kind::later, watcher_.place()};
    }
    if (root_->has_ended()) {
      if (!failure_) return;
      repeat_until_ = root_->failed_at() < root_->steps() ? root_->failed_at() : root_->statement();
      throw *std::move(failure_);
    }
    if (step != Step::returned) {
      repeat_until_ = root_->failed_at();
      throw GivenUp{Captured::Kind::refused, watcher_.abandoned() ? watcher_.place() : Place(Break::raises)};
    }
    throw GivenUp{Captured::Kind::refused, {"it returns in a way that is not understood"}};
  }

  /// Called while the frame still holds what the run left there. Lets no exception out: CPython's frames may lie
  /// between here and the caller.
  void collect(Activation& a, int offset) noexcept {
    try {
      const int at = a.offset_of(a.start);
      const interpreter::Instruction last = interpreter::instruction_at(a.code(), at);
      outcome_.returns = interpreter::is_return(last.opcode);
      raises_ = last.opcode == RAISE_VARARGS;
      if (!outcome_.returns) breakpoints_.push_back(at);
      if (a.thread->exc_info->exc_value != handled_before_)
        throw NotRebuilt{"it ends in the middle of an exception's handler"};
      outcome_.offset = offset;
      want_arguments();
      Rebuilder rebuilder(builder_, watcher_.values(), guards_);
      std::vector<guards::RecipeNode> results;
      PyObject* constant = interpreter::returned_constant(a.code(), last.opcode, last.arg);
      if (constant)
        results.push_back(rebuilder.node(constant));
      else if (outcome_.returns)
        results.push_back(slot_node(rebuilder, a, static_cast<int>(a.top - a.frame->localsplus) - 1));
      else
        collect_slots(rebuilder, a, offset, results);
      take_effects(rebuilder);
      hold_outputs(rebuilder, outcome_);
      outcome_.recipe = std::move(builder_).finish(results);
      outcome_.modes = modes_change();
    } catch (const NotRebuilt& error) {
      failure_ = GivenUp{Captured::Kind::refused, place_in(a.code(), offset, error.reason)};
    } catch (const std::exception& error) {
      failure_ = GivenUp{Captured::Kind::refused, place_in(a.code(), offset, error.what())};
    }
  }

  void collect_slots(Rebuilder& rebuilder, Activation& a, int offset, std::vector<guards::RecipeNode>& results) {
    using Kind = Outcome::Slot::Kind;
    const Variables& variables = code_.variables();
    const bool is_looked_at = variables.are_read_by_name || shows_variables(a, offset);
    const int locals = a.code()->co_nlocalsplus, count = static_cast<int>(a.top - a.frame->localsplus);
    for (int slot = 0; slot < count; ++slot) {
      Outcome::Slot plan;
      const bool is_local = slot < locals;
      const interpreter::Passed& passed = root_->passed_on(slot);
      // A tensor that nobody reads any more need not be computed; what was there before may have a finalizer, and
      // stays as long as natively. All else is for those who look at a frame's variables from outside.
      const bool is_dead = is_local && !passed && !is_looked_at && !variables.liveness.is_live(offset, slot) &&
                           !costs_nothing(a.local(slot));
      if (!a.local(slot) || is_dead) {
        plan.kind = Kind::empty;
      } else if (is_local && passed.source && passed.source == own_sources_[slot]) {
        plan.kind = Kind::kept;
      } else {
        plan = {Kind::made, static_cast<uint32_t>(results.size())};
        results.push_back(slot_node(rebuilder, a, slot));
      }
      outcome_.slots.push_back(plan);
    }
  }

  /// What follows shows what the frame holds: a statement that raises, or a call of what asks for frames.
  static bool shows_variables(const Activation& a, int offset) {
    using interpreter::Flow;
    using interpreter::LocalUse;
    interpreter::Instruction one = interpreter::instruction_at(a.code(), offset);
    while (interpreter::flow_of(one.opcode) == Flow::next && interpreter::local_use(one.opcode) != LocalUse::stores)
      one = interpreter::instruction_at(a.code(), one.next);
    if (one.opcode == RAISE_VARARGS) return true;
    const int opcode = interpreter::opcode_at(a.current);
    if (opcode != CALL && opcode != CALL_FUNCTION_EX) return false;
    return std::any_of(a.stack_base(), a.top, [](PyObject* value) {
      return value && PyFunction_Check(value) &&
             reads_variables_by_name(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(value)));
    });
  }

  /// A replay makes it again without computing a tensor.
  bool costs_nothing(PyObject* value, int depth = 0) {
    interpreter::Values& values = watcher_.values();
    if (!value || guards::is_scalar(value) || values.tensors().is_plain(value)) return true;
    if (values.is_constant(value) || values.source_of(value)) return true;
    const bool is_sequence = PyTuple_CheckExact(value) || PyList_CheckExact(value);
    if (!is_sequence || !values.is_made(value) || depth > 3 || PySequence_Fast_GET_SIZE(value) > 16) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      if (!costs_nothing(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return false;
    return true;
  }

  guards::RecipeNode slot_node(Rebuilder& rebuilder, Activation& a, int slot) {
    if (const interpreter::Passed& passed = root_->passed_on(slot))
      return passed_node(rebuilder, a.local(slot), passed);
    return rebuilder.node(a.local(slot));
  }

  guards::RecipeNode passed_node(Rebuilder& rebuilder, PyObject* value, const interpreter::Passed& passed) {
    if (passed.source) return builder_.value(guards_.want(passed.source));
    std::vector<guards::RecipeNode> items;
    for (size_t i = 0; i < passed.parts->size(); ++i)
      items.push_back(
          passed_node(rebuilder, PyTuple_GET_ITEM(value, static_cast<Py_ssize_t>(i)), (*passed.parts)[i]));
    return rebuilder.tuple_of(value, items);
  }

  void describe(Specialisation& made) {
    made.begins = place_in(run_.code(), begin_, "");
    for (int k = 0; k < run_.depth(); ++k) made.empty_stack_slots.push_back(!run_.activation().stack_base()[k]);
    made.globals = run_.frame()->f_globals;
    made.builtins = run_.frame()->f_builtins;
    made.held.push_back(guards::Ref::borrow(made.globals));
    made.held.push_back(guards::Ref::borrow(made.builtins));
  }

  FrameRun& run_;
  CodeState& code_;
  uint64_t stop_, repeat_until_ = 0;
  RootFrame* root_ = nullptr;
  std::vector<const guards::Source*> own_sources_;  ///< By slot: what it held at the beginning.
  PyObject* handled_before_ = nullptr;
  int begin_ = 0;
  bool raises_ = false;  ///< It ended before a `raise`.
  std::vector<int> breakpoints_;
  Outcome outcome_;
  std::optional<GivenUp> failure_;
};

/// Puts a frame back as it is now, at the latest when it goes.
class FrameState {
 public:
  explicit FrameState(FrameRun& run) : run_(run), state_(run.save()) {}
  ~FrameState() { put_back(); }
  FrameState(const FrameState&) = delete;
  FrameState& operator=(const FrameState&) = delete;

  void put_back() {
    if (state_) run_.restore(*std::exchange(state_, std::nullopt));
  }

 private:
  FrameRun& run_;
  std::optional<FrameRun::State> state_;
};

Captured given_up(const GivenUp& error) {
  return {.kind = error.kind, .place = error.place};
}

Captured suppressed(const std::string& error) {
  warn(concat("suppress_errors makes a call run natively: ", error));
  return {.kind = Captured::Kind::refused, .place = BreakReason::told(error)};
}

/// In the log of recompilations.
void tell_numbers(const Place& place) {
  if (is_enabled(Event::recompiles)) emit(Event::recompiles, concat("sizes stay numbers: ", place.text()));
}

/// What `record()` gives, or why it gave up.
template <typename Record>
Captured attempt(const Settings& settings, Record&& record) {
  try {
    return record();
  } catch (const GivenUp& error) {
    return given_up(error);
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

}  // namespace

Captured capture_call(const py::object& function, const Arguments& arguments, const Settings& settings,
                      bool is_first, SizeHistory& history) {
  const auto record = [&] {
    return attempt(settings, [&] {
      CallRecording recording(function, arguments, settings, is_first, history);
      return recording.with_symbols([&] { return recording.run(); });
    });
  };
  Captured captured = record();
  if (captured.made || captured.kind == Captured::Kind::gradients || !history.gives_up()) return captured;
  // Numbers go where symbols do not.
  tell_numbers(captured.place);
  return record();
}

Captured capture_frame(FrameRun& run, CodeState& code, const Settings& settings) {
  // A run that fails inside of a callee, or leaves what cannot be rebuilt, is repeated up to an earlier
  // instruction.
  uint64_t stop = 0;
  std::optional<Place> first_place;
  std::vector<int> breakpoints;
  for (int runs_left = 3;; --runs_left) {
    const uint64_t asked = stop;
    const size_t known_breakpoints = breakpoints.size();
    Captured captured = attempt(settings, [&] {
      FrameState before(run);
      FrameRecording recording(run, code, settings, stop);
      return recording.with_symbols([&] {
        stop = 0;
        try {
          recording.record_run();
        } catch (const GivenUp& error) {
          stop = recording.repeat_until();
          breakpoints.insert(breakpoints.end(), recording.breakpoints().begin(), recording.breakpoints().end());
          return given_up(error);
        }
        before.put_back();
        return recording.finish();
      });
    });
    // Numbers go where symbols do not: no breakpoint is there because of these.
    SizeHistory& history = code.starts[run.offset()].sizes;
    if (history.gives_up() && captured.kind != Captured::Kind::gradients) {
      tell_numbers(captured.place);
      stop = asked;
      breakpoints.resize(known_breakpoints);
      continue;
    }
    if (!first_place) first_place = captured.place;
    captured.place = *first_place;
    captured.breakpoints.insert(captured.breakpoints.end(), breakpoints.begin(), breakpoints.end());
    if (captured.made && !captured.made->outcome.returns) captured.made->break_reason = captured.place;
    if (stop == 0 || runs_left == 0) return captured;
  }
}

std::vector<PyObject*> frame_values(FrameRun& run) {
  const Activation& a = run.activation();
  std::vector<PyObject*> values{reinterpret_cast<PyObject*>(interpreter::function_of(a.frame))};
  values.insert(values.end(), a.frame->localsplus, a.top);
  return values;
}

}  // namespace braze::python
