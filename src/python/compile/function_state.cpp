// python/compile/function_state.cpp
#include "python/compile/function_state.h"

#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>

#include "capture/gate.h"
#include "capture/trace.h"
#include "python/compile/announce.h"
#include "python/compile/checkpoint_choices.h"
#include "python/compile/events.h"
#include "python/compile/operators.h"
#include "python/compile/stance.h"
#include "python/compile/transforms_scope.h"
#include "python/errors.h"
#include "python/interpreter/entry.h"
#include "python/program_object.h"
#include "support/error.h"
#include "support/stack.h"

namespace braze::python {

namespace {

using Replay = Specialisation::Replay;

/// Of calls in which the program found an error.
constexpr std::string_view raises_text =
    interpreter::row_of(interpreter::Break::operation_on_tensors_raises_error).text;
constexpr int most_put_off = 16;  // Captures that wait for a native run.

py::object call_natively(const py::object& function, const Arguments& arguments) {
  PyObject* result = PyObject_Vectorcall(function.ptr(), arguments.values, arguments.flags, arguments.names);
  if (!result) throw_python_error();
  return py::reinterpret_steal<py::object>(result);
}

py::dict describe(const Place& place) {
  py::dict row;
  row["id"] = interpreter::row_of(place.id).id;
  row["reason"] = place.reason;
  row["remedy"] = place.remedy();
  row["file"] = place.file;
  row["line"] = place.line;
  return row;
}

[[noreturn]] void refuse_parts(const Place& place) {
  throw UserError(concat("the function cannot be captured as one graph, which fullgraph=True asks for: ",
                         place.text(), ". ", place.remedy()));
}

py::dict describe(const Specialisation& one, const Settings& settings) {
  py::dict row;
  row["code"] = one.name;
  row["file"] = one.begins.file;
  row["line"] = one.begins.line;
  row["graph"] = one.program->code("graph");
  row["op_count"] = one.op_count;
  row["guards"] = one.guards.texts();
  // Where values are read, and the graph goes on with the next program.
  const bool goes_on = one.break_reason && settings.goes_on_after(one.break_reason->id);
  const py::object end = one.break_reason ? py::object(describe(*one.break_reason)) : py::none();
  row["break"] = goes_on ? py::none() : end;
  row["read"] = goes_on ? end : py::none();
  py::dict times;
  for (const PhaseTimes::Row& phase : one.program->compile_times().rows())
    times[py::str(phase.name)] = phase.nanoseconds;
  row["compile_times"] = times;
  row["replays"] = one.replays;
  row["missed"] = one.missed;
  row["guard_nanoseconds"] = one.guard_nanoseconds;
  const auto view = [&](std::shared_ptr<runtime::Program> program) {
    return program ? make_program_view(one.name, std::move(program)) : py::none();
  };
  row["program"] = view(one.program->program());
  row["backward"] = view(one.program->backward());
  return row;
}

}  // namespace

std::string describe_function(const py::object& function) {
  const py::object name = py::getattr(function, "__qualname__", py::none());
  if (!py::isinstance<py::str>(name)) return py::str(py::type::of(function).attr("__name__")).cast<std::string>();
  const py::object code = py::getattr(function, "__code__", py::none());
  if (!PyCode_Check(code.ptr())) return name.cast<std::string>();
  return concat(name.cast<std::string>(), " (", py::str(code.attr("co_filename")).cast<std::string>(), ":",
                code.attr("co_firstlineno").cast<int>(), ")");
}

py::object FunctionState::call(const Arguments& arguments) {
  if (_Py_IsFinalizing()) return call_natively(function_, arguments);  // Nothing can be imported any more.
  // Inside of a trace the function is part of it; inside of its own capture it is a callee.
  const Stance stance = current_stance();
  if (is_capturing_ || capture::Tracer::current()) return call_natively(function_, arguments);
  if (CheckpointChoices::repeats()) return repeat(arguments, stance);
  if (stance == Stance::force_eager) {
    CheckpointChoices::note(this, CheckpointChoices::whole, CheckpointChoices::Way::native);
    return call_natively(function_, arguments);
  }
  // Whoever traces must see every line and call.
  if (interpreter::is_traced(PyThreadState_Get()))
    return run_natively(arguments,
                        interpreter::handover_texts[static_cast<size_t>(interpreter::Handover::tracing)]);
  // Its tensors are wrapped, and the transform, not the caller, says what operators mean.
  if (is_transforming()) return run_natively(arguments, std::string(row_of(interpreter::Break::transforming).text));
  if (capture::is_below_gate()) return run_natively(arguments, "a __torch_dispatch__ carries out an operator");
  if (PyObject* backend = forced_backend(); backend && !is_variant_) return with_backend(backend).call(arguments);
  py::object result;
  switch (replay(arguments, &result)) {
    case Replay::done: ++replayed_; return result;
    case Replay::raised: return run_natively(arguments, std::string(raises_text));
    case Replay::refused: break;
  }
  // torch.jit.trace keeps the operators that run, and would see those of a capture.
  if (torch::jit::tracer::isTracing()) return run_natively(arguments, "torch.jit.trace is under way");
  const bool is_first = !std::exchange(was_called_, true);
  if (stance == Stance::eager_then_compile && is_first)
    return run_natively(arguments, "the stance is eager_then_compile");
  if (!has_breaks_ && stance == Stance::normal && is_one_of_many(arguments)) go_on_in_parts(arguments);
  if (has_breaks_) return drive(arguments, stance);
  if (stance == Stance::eager_on_recompile && !calls_.empty())
    return run_natively(arguments, "the stance is eager_on_recompile");
  calls_.drop_dead();
  std::erase_if(wanting_, [](const Wanting& one) { return one.guards.is_dead(); });
  if (!calls_.empty() && is_enabled(Event::recompiles))
    emit(Event::recompiles, concat(calls_.front().name, ": ", explain_miss(arguments)));
  if (stance == Stance::fail_on_recompile && !calls_.empty())
    throw UserError(
        concat("a compiled function is called in a way for which it has no program, and the stance is "
               "fail_on_recompile: ",
               explain_miss(arguments)));
  if (calls_.is_full(settings_.recompile_limit)) {
    warn_of_limit();
    return run_natively(arguments, "the recompile limit");
  }
  const guards::Call call = arguments.call();
  for (const Wanting& one : wanting_) {
    std::vector<PyObject*> values(one.guards.wanted());
    if (one.guards.check(call, values.data()) == guards::GuardProgram::ok)
      return run_natively(arguments, std::string(gradients_text), one.op_count);
  }
  if (wanting_.size() >= settings_.recompile_limit || !failed_captures_.should_try(look_of(arguments.all())))
    return run_natively(arguments,
                        failed_captures_.empty() ? "the recompile limit" : "captures were given up too often");
  if (stack_is_short()) return run_natively(arguments, "little of the C stack is left");
  return capture(arguments);
}

/// In a checkpoint that is run again: as what this call ran in the forward.
py::object FunctionState::repeat(const Arguments& arguments, Stance stance) {
  const auto choice = CheckpointChoices::next(this, CheckpointChoices::whole);
  if (!choice || choice->way == CheckpointChoices::Way::native)
    return run_natively(arguments, "in the forward of a checkpoint it ran natively");
  if (choice->way == CheckpointChoices::Way::frames) return drive(arguments, stance);
  const NoVmap no_vmap;
  std::shared_ptr<Specialisation> one = choice->program;
  std::vector<PyObject*> values(one->guards.wanted());
  const auto find = [&] {
    return calls_.find([](const Specialisation&) { return true; }, [&] { return arguments.call(); }, values);
  };
  if (one->check(arguments.call(), values.data()) != guards::GuardProgram::ok) {
    one = find();
    if (!one && !calls_.is_full(settings_.recompile_limit)) {
      if (Captured captured = capture_now(arguments); captured.made) calls_.add(std::move(captured.made));
      one = find();
    }
    if (!one || !CheckpointChoices::saves_the_same(*one, *choice->program))
      CheckpointChoices::raise_changed(choice->program->explain_miss(arguments.call()));
  }
  ++replayed_;  // It ends by an exception, where the last tensor is saved.
  py::object result;
  if (replay(*one, values.data(), &result) != Replay::done)
    CheckpointChoices::raise_changed("its program does not take the arguments");
  return result;
}

FunctionState& FunctionState::with_backend(PyObject* backend) {
  std::unique_ptr<FunctionState>& variant = variants_[guards::Ref::borrow(backend)];
  if (!variant) {
    Settings settings = settings_;
    settings.backend = make_backend(backend);
    variant = std::make_unique<FunctionState>(function_, std::move(settings));
    variant->is_variant_ = true;
  }
  return *variant;
}

Specialisation::Replay FunctionState::replay(const Arguments& arguments, py::object* result) {
  if (calls_.empty()) return Replay::refused;
  c10::SmallVector<PyObject*, 16> values;
  const std::shared_ptr<Specialisation> one =
      calls_.find([](const Specialisation&) { return true; }, [&] { return arguments.call(); }, values);
  const Replay replayed = one ? replay(*one, values.data(), result) : Replay::refused;
  if (replayed == Replay::done)
    CheckpointChoices::note(this, CheckpointChoices::whole, CheckpointChoices::Way::program, one);
  return replayed;
}

Specialisation::Replay FunctionState::replay(Specialisation& one, PyObject* const* values, py::object* result) {
  guards::Ref returned;
  const Replay replayed = one.replay(values, &returned);
  if (replayed != Replay::done) return replayed;
  compiled_operators_ += static_cast<int64_t>(one.op_count);
  *result = py::reinterpret_steal<py::object>(returned.release());
  return Replay::done;
}

Captured FunctionState::capture_now(const Arguments& arguments) {
  is_capturing_ = true;
  try {
    Captured captured = capture_call(function_, arguments, settings_, calls_.empty(), calls_.dropped(), sizes_);
    is_capturing_ = false;
    return captured;
  } catch (...) {
    is_capturing_ = false;
    throw;
  }
}

/// Captures the call, or finds that it has graph breaks; then runs it.
py::object FunctionState::capture(const Arguments& arguments) {
  Captured captured = capture_now(arguments);
  const uint64_t look = look_of(arguments.all());
  if (captured.made) {
    failed_captures_.succeeded(look);
    announce(*captured.made);
    if (!calls_.empty()) captured.made->missed = explain_miss(arguments);
    calls_.add(std::move(captured.made));
    py::object result;
    switch (replay(arguments, &result)) {
      case Replay::done: ++captured_; return result;
      case Replay::raised: return run_natively(arguments, std::string(raises_text));
      case Replay::refused: break;
    }
    return run_natively(arguments, "the new program does not take these arguments: " + explain_miss(arguments));
  }
  if (captured.kind == Captured::Kind::later && ++put_off_ <= most_put_off)
    return run_natively(arguments, captured.place.text());
  if (captured.kind == Captured::Kind::gradients) {
    warn_of_gradients();
    if (!captured.wanting) {
      failed_captures_.failed(look);
      return run_natively(arguments, captured.place.text());
    }
    wanting_.push_back({*std::move(captured.wanting), static_cast<int64_t>(captured.op_count)});
    return run_natively(arguments, captured.place.text(), wanting_.back().op_count);
  }
  if (captured.kind == Captured::Kind::failed) {
    failed_captures_.failed(look);
    return run_natively(arguments, captured.place.text());
  }
  if (!settings_.goes_on_after(captured.place.id)) {
    if (settings_.fullgraph) {
      // What the function itself raises is the caller's, and no graph's.
      if (captured.place.id == interpreter::Break::raises) run_natively(arguments, captured.place.text());
      refuse_parts(captured.place);
    }
    codes_.tell_break(captured.place);
  }
  has_breaks_ = true;
  first_break_ = captured.place;
  return drive(arguments, current_stance());
}

/// Programs have served one call each, and would not do for this one because of the values that they are for. Of
/// how many items there are, and of what is decided by numbers, there may be as many programs as of anything else.
bool FunctionState::is_one_of_many(const Arguments& arguments) const {
  if (settings_.fullgraph || calls_.size() < few_whole_calls) return false;
  const guards::Call call = arguments.call();
  const bool is_full = calls_.is_full(settings_.recompile_limit);
  const auto is_other = [&](const auto& one) {
    return one->replays <= 1 &&
           (is_full ? one->asked.first_other(call).has_value() : one->asked.is_for_other_scalar(call));
  };
  return std::ranges::count_if(calls_, is_other) >= few_whole_calls;
}

void FunctionState::go_on_in_parts(const Arguments& arguments) {
  whole_ = WholeCalls{.sizes = sizes_, .many = {}};
  for (const auto& one : calls_) one->asked.add_others(arguments.call(), whole_->many);
  has_breaks_ = true;
  first_break_ = calls_.front().begins;
  first_break_.id = interpreter::Break::one_of_many;
  first_break_.reason = row_of(first_break_.id).text;
}

py::object FunctionState::drive(const Arguments& arguments, Stance stance) {
  CheckpointChoices::note(this, CheckpointChoices::whole, CheckpointChoices::Way::frames);
  const bool may_capture = stance == Stance::normal || stance == Stance::eager_then_compile;
  FrameDriver driver(codes_, settings_, may_capture, whole_ ? &*whole_ : nullptr);
  const interpreter::DriverScope scope(&driver);
  const auto count = [&] {
    const CallCounts& counts = driver.counts();
    const bool is_training = counts.wants_gradients && counts.native > counts.compiled;
    if (is_training) warn_of_gradients();
    const bool is_native = is_training || (counts.captured == 0 && counts.replayed == 0);
    if (is_native) ++reasons_[is_training ? std::string(gradients_text) : first_break_.text()];
    ++(is_native ? native_ : counts.captured > 0 ? captured_ : replayed_);
    compiled_operators_ += counts.compiled;
    for (const auto& [reason, count] : counts.reasons)
      add_native(reason.empty() ? first_break_.text() : reason, count);
  };
  py::object result = call_natively_and(count, arguments);
  if (driver.counts().end) refuse_parts(*driver.counts().end);
  return result;
}

template <typename Count>
py::object FunctionState::call_natively_and(const Count& count, const Arguments& arguments) {
  try {
    py::object result = call_natively(function_, arguments);
    count();
    return result;
  } catch (...) {
    count();
    throw;
  }
}

py::object FunctionState::run_natively(const Arguments& arguments, const std::string& reason,
                                       std::optional<int64_t> op_count) {
  CheckpointChoices::note(this, CheckpointChoices::whole, CheckpointChoices::Way::native);
  ++native_;
  ++reasons_[reason];
  if (op_count) {
    add_native(reason, *op_count);
    return call_natively(function_, arguments);
  }
  const NativeOperators operators;
  return call_natively_and([&] { add_native(reason, operators.count()); }, arguments);
}

void FunctionState::add_native(const std::string& reason, int64_t operators) {
  if (operators == 0) return;
  native_operators_ += operators;
  native_reasons_[reason] += operators;
}

std::string FunctionState::explain_miss(const Arguments& arguments) const {
  return calls_.front().explain_miss(arguments.call());
}

void FunctionState::warn_of_limit() {
  if (std::exchange(has_warned_, true)) return;
  const std::string text =
      concat(py::str(py::getattr(function_, "__name__", py::str("compiled"))).cast<std::string>(), " was compiled ",
             calls_.size() + calls_.dropped(),
             " times, which is its recompile limit: calls that none of its programs is for run "
             "natively from now on. BRAZE_LOGS=recompiles tells what changed.");
  warn(text);
}

void FunctionState::warn_of_gradients() {
  if (std::exchange(has_warned_of_gradients_, true)) return;
  log_warning(concat(
      describe_function(function_),
      " is called where gradients are wanted, and its backward cannot be compiled: such calls run in eager, and "
      "reasons() says why. Where no gradients are needed, call it under torch.no_grad() or torch.inference_mode(), "
      "or "
      "freeze its parameters with requires_grad_(False)."));
}

void FunctionState::reset() {
  calls_.clear();
  wanting_.clear();
  codes_.clear();
  sizes_.clear();
  whole_.reset();
  failed_captures_.clear();
  has_breaks_ = was_called_ = has_warned_ = has_warned_of_gradients_ = false;
  for (auto& [backend, variant] : variants_) variant->reset();
}

std::vector<std::shared_ptr<const Specialisation>> FunctionState::specialisations() const {
  std::vector<std::shared_ptr<const Specialisation>> all(calls_.begin(), calls_.end());
  codes_.for_each([&](const CodeState& code) {
    for (const auto& [offset, start] : code.starts)
      all.insert(all.end(), start.specialisations.begin(), start.specialisations.end());
  });
  for (const auto& [backend, variant] : variants_)
    std::ranges::copy(variant->specialisations(), std::back_inserter(all));
  return all;
}

py::dict FunctionState::counts() const {
  int64_t captured = captured_, replayed = replayed_, native = native_;
  for (const auto& [backend, variant] : variants_) {
    captured += variant->captured_;
    replayed += variant->replayed_;
    native += variant->native_;
  }
  py::dict counts;
  counts["captured"] = captured;
  counts["replayed"] = replayed;
  counts["native"] = native;
  return counts;
}

std::map<std::string, int64_t> FunctionState::reasons() const {
  std::map<std::string, int64_t> all = reasons_;
  for (const auto& [backend, variant] : variants_)
    for (const auto& [reason, count] : variant->reasons_) all[reason] += count;
  return all;
}

py::dict FunctionState::operators() const {
  int64_t compiled = compiled_operators_, native = native_operators_;
  std::map<std::string, int64_t> reasons = native_reasons_;
  const auto add = [&](const FunctionState& state) {
    compiled += state.compiled_operators_;
    native += state.native_operators_;
    for (const auto& [reason, count] : state.native_reasons_) reasons[reason] += count;
  };
  for (const auto& [backend, variant] : variants_) add(*variant);
  py::dict operators;
  operators["compiled"] = compiled;
  operators["native"] = native;
  operators["reasons"] = py::cast(reasons);
  return operators;
}

py::dict FunctionState::report() const {
  py::list segments;
  for (const auto& one : specialisations()) segments.append(describe(*one, settings_));
  py::dict report;
  report["segments"] = segments;
  report["counts"] = counts();
  report["operators"] = operators();
  report["reasons"] = py::cast(reasons());
  const bool goes_on = settings_.goes_on_after(first_break_.id);
  report["first_read"] = has_breaks_ && goes_on ? py::object(describe(first_break_)) : py::none();
  report["first_break"] = has_breaks_ && !goes_on ? py::object(describe(first_break_)) : py::none();
  return report;
}

int FunctionState::visit(visitproc visit, void* arg) const {
  Py_VISIT(function_.ptr());
  for (const auto& one : calls_)
    if (const int stop = one->visit(visit, arg)) return stop;
  if (const int stop = codes_.visit(visit, arg)) return stop;
  for (const Wanting& one : wanting_)
    if (const int stop = one.guards.visit(visit, arg)) return stop;
  for (const auto& [backend, variant] : variants_) {
    Py_VISIT(backend.get());
    if (const int stop = variant->visit(visit, arg)) return stop;
  }
  return settings_.backend ? settings_.backend->visit(visit, arg) : 0;
}

}  // namespace braze::python
