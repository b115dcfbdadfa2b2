// python/compile/frame_driver.cpp
#include "python/compile/frame_driver.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "capture/gate.h"
#include "capture/traceable.h"
#include "python/compile/announce.h"
#include "python/compile/capture.h"
#include "python/compile/checkpoint_choices.h"
#include "python/compile/events.h"
#include "python/compile/given_tensors.h"
#include "python/compile/torch_names.h"
#include "python/compile/torch_world.h"
#include "python/compile/transforms_scope.h"
#include "python/compile/value_reads.h"
#include "python/errors.h"
#include "python/guards/class_kind.h"
#include "python/guards/drops.h"
#include "python/guards/iterators.h"
#include "python/guards/torch_values.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/instructions.h"
#include "support/stack.h"

namespace braze::python {

namespace {

using interpreter::Activation;
using interpreter::FrameRun;
using interpreter::Step;

constexpr int most_fruitless = 48;  // Captures that come to nothing, in one code object.
constexpr size_t most_read = 64;    // Numbers that one call has read last.

bool fits_frame(const Specialisation& one, const FrameRun& run) {
  if (one.globals != run.frame()->f_globals || one.builtins != run.frame()->f_builtins) return false;
  PyObject* const* stack = const_cast<FrameRun&>(run).activation().stack_base();
  if (static_cast<size_t>(run.depth()) != one.empty_stack_slots.size()) return false;
  for (size_t k = 0; k < one.empty_stack_slots.size(); ++k)
    if (one.empty_stack_slots[k] != !stack[k]) return false;
  const auto dropped = static_cast<Py_ssize_t>(one.dropped);
  return std::ranges::all_of(one.unset_variables, [&](const Specialisation::Unset& variable) {
    PyObject* value = run.frame()->localsplus[variable.slot];
    return !value || (!variable.is_moved && guards::goes_unnoticed(value, dropped));
  });
}

size_t count_programs(const CodeState& code) {
  size_t count = 0;
  for (const auto& [offset, start] : code.starts) count += start.specialisations.size();
  return count;
}

}  // namespace

namespace {

size_t hooks_on_saved_tensors() {
  return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

/// Of a plain tensor, or of the items of a tuple that are such.
std::vector<at::IntArrayRef> shapes_in(PyObject* value) {
  std::vector<at::IntArrayRef> shapes;
  const auto add = [&](PyObject* one) {
    if (!one || reinterpret_cast<PyObject*>(Py_TYPE(one)) != torch_names().tensor_type) return;
    const at::Tensor& tensor = THPVariable_Unpack(one);
    if (capture::is_strided(tensor)) shapes.push_back(tensor.sizes());
  };
  add(value);
  for (Py_ssize_t i = 0; value && PyTuple_Check(value) && i < PyTuple_GET_SIZE(value); ++i)
    add(PyTuple_GET_ITEM(value, i));
  return shapes;
}

bool gives_items(PyObject* value) {
  return value && guards::iterator_kind(value) != guards::IteratorKind::none;
}

/// The instruction in front of `offset` is one of these.
bool is_behind(const CodeState& code, const interpreter::Offsets& instructions, int offset) {
  auto* of = reinterpret_cast<PyCodeObject*>(code.code.get());
  for (size_t k = 0; k < instructions.size(); ++k)
    if (instructions[k] && interpreter::instruction_at(of, static_cast<int>(k)).next == offset) return true;
  return false;
}

bool contains(const std::vector<int64_t>& sizes, int64_t size) {
  return std::ranges::find(sizes, size) != sizes.end();
}

/// Those of PyTorch's own tracers among them.
bool dispatch_modes() {
  return c10::impl::TorchDispatchModeTLS::any_modes_set();
}

}  // namespace

FrameDriver::FrameDriver(CodeTable& table, const Settings& settings, bool capture, const WholeCalls* whole)
    : table_(table),
      settings_(settings),
      may_capture_(capture),
      whole_(whole),
      hooks_outside_(hooks_on_saved_tensors()),
      modes_outside_(dispatch_modes()),
      number_([] {
        static uint64_t calls = 0;  // Under the GIL.
        return ++calls;
      }()) {
  load_library_paths();
}

static const std::string second_derivatives = "gradients are differentiated again (create_graph=True)";

/// What a program gives can be differentiated again, but that takes longer than eager and may be refused. So the
/// parts of such a frame run natively with all that they call, but for the last one, in which the gradients
/// themselves are part of the graph.
static bool is_differentiated_twice(const CodeState& code) {
  return code.differentiates_twice && at::GradMode::is_enabled();
}

class FrameDriver::NativePiece {
 public:
  NativePiece(FrameDriver& driver, const std::string& reason)
      : driver_(driver), reason_(reason), before_(driver.operators_.count()), told_before_(driver.counts_.native) {}
  ~NativePiece() {
    // Frames that were entered meanwhile have told of their own.
    const int64_t all = driver_.operators_.count() - before_, told = driver_.counts_.native - told_before_;
    if (all <= told) return;
    driver_.counts_.native += all - told;
    driver_.counts_.reasons[reason_] += all - told;
  }
  NativePiece(const NativePiece&) = delete;
  NativePiece& operator=(const NativePiece&) = delete;

 private:
  FrameDriver& driver_;
  const std::string& reason_;
  int64_t before_, told_before_;
};

/// In a checkpoint's second run: whether it was in the first.
bool FrameDriver::is_worth_a_run(CodeState& code, uint64_t look) {
  if (CheckpointChoices::repeats()) return !CheckpointChoices::next(&code, CheckpointChoices::whole);
  if (code.runs_without_gain.should_try(look)) return true;
  CheckpointChoices::note(&code, CheckpointChoices::whole, CheckpointChoices::Way::native);
  return false;
}

PyObject* FrameDriver::drive(PyThreadState* thread, interpreter::Frame* frame) {
  const bool is_outermost = !siblings_;
  if (is_outermost) siblings_.emplace(frame);
  if (is_capturing_ || torch::jit::tracer::isTracing() || is_transforming() || capture::is_below_gate())
    return _PyEval_EvalFrameDefault(thread, frame, 0);
  // A native piece has entered a mode that is given every operator, such as a tracer's: its calls are counted.
  if (!modes_outside_ && dispatch_modes()) return _PyEval_EvalFrameDefault(thread, frame, 0);
  if (stack_is_short()) return interpreter::evaluate_apart(thread, frame, 0);
  const std::shared_ptr<CodeState> held = table_.state(frame->f_code);
  CodeState& code = *held;
  if (code.is_library || (!is_outermost && code.starts.empty() && !is_given_tensors(frame)))
    return _PyEval_EvalFrameDefault(thread, frame, 0);
  const bool is_twice = is_differentiated_twice(code);
  const uint64_t look = look_of({frame->localsplus, static_cast<size_t>(frame->f_code->co_nlocalsplus)});
  if (!is_worth_a_run(code, look)) {
    if (!is_twice) return _PyEval_EvalFrameDefault(thread, frame, 0);
    const interpreter::Pause native;
    const NativePiece piece(*this, second_derivatives);
    return _PyEval_EvalFrameDefault(thread, frame, 0);
  }
  FrameRun run(thread, frame);
  if (!run.entered()) return run.finish(Step::error);
  if (is_outermost && whole_) whole_code_ = code.code.get();
  if (is_outermost && whole_ && code.starts.empty()) code.starts[run.offset()].sizes = whole_->sizes;
  bool has_gained = false;
  Why why;
  Step step = Step::next;
  guards::Ref result;
  while (step == Step::next) {
    try {
      const Advance advanced = advance(code, run, result, why);
      has_gained |= advanced != Advance::no;
      if (advanced == Advance::returned) break;
    } catch (...) {
      set_python_error();
      step = Step::error;
      has_gained = true;
    }
    const NativePiece piece(*this, is_twice ? second_derivatives : why.text);
    std::optional<interpreter::Pause> native;
    if (is_twice) native.emplace();
    const size_t shape_reads = shape_reads_;
    step = step == Step::error ? run.run_raising(code.breakpoints) : run.run(code.breakpoints);
    if (step == Step::next) code.starts[run.offset()].is_resumed = true;
    if (step == Step::next && run.depth() > 0) note_read(code, run, why.id);
    if (step == Step::next && run.depth() > 0) note_many(run, why.id);
    // Where it was in a frame that was entered meanwhile, that has told of it.
    if (step == Step::next && run.depth() > 0 && shape_reads == shape_reads_) note_sizes(run, why.id);
    if (step == Step::next) note_class(code, run);
  }
  has_gained ? code.runs_without_gain.succeeded(look) : code.runs_without_gain.failed(look);
  if (step == Step::next) return run.finish_with(result.release());
  return run.finish(step);
}

FrameDriver::Advance FrameDriver::advance(CodeState& code, FrameRun& run, guards::Ref& result, Why& why) {
  // What saves under such hooks is run a second time by who sets them, in the backward and natively: then it must
  // save the same.
  if (at::GradMode::is_enabled() && hooks_on_saved_tensors() > hooks_outside_) {
    const Place hooks = interpreter::Break::saved_tensor_hooks;
    note_end(hooks);
    why = hooks;
    return Advance::no;
  }
  const int offset = run.offset();
  std::vector<PyObject*> values;
  const Chosen chosen = choose(code, run, values);
  why = code.starts[offset].why;
  const std::shared_ptr<Specialisation>& one = chosen.one;
  std::vector<guards::Ref> results(one ? one->outcome.recipe.result_count() : 0);
  const auto replayed = [&] {
    try {
      return one->replay(values.data(), results.data());
    } catch (...) {
      ++counts_.replayed;  // A checkpoint's second run ends by an exception.
      throw;
    }
  };
  const bool is_of_use = one && (one->outcome.returns || !is_differentiated_twice(code));
  if (!is_of_use || replayed() != Specialisation::Replay::done) {
    CheckpointChoices::note(&code, offset, CheckpointChoices::Way::native);
    return Advance::no;
  }
  CheckpointChoices::note(&code, offset, CheckpointChoices::Way::program, one);
  one->used_by_call = number_;
  ++(chosen.is_new ? counts_.captured : counts_.replayed);
  counts_.compiled += static_cast<int64_t>(one->op_count);
  if (one->break_reason) {
    note_end(*one->break_reason);
    why = *one->break_reason;
  }
  if (one->outcome.returns) {
    run.stand_at(one->outcome.offset);
    result = std::move(results[0]);
    return Advance::returned;
  }
  move(run, one->outcome, results);
  return Advance::moved;
}

FrameDriver::Chosen FrameDriver::choose(CodeState& code, FrameRun& run, std::vector<PyObject*>& values) {
  const int offset = run.offset();
  Start& start = code.starts[offset];
  if (CheckpointChoices::repeats()) return repeat(code, run, values);
  // One way from here has nothing to compute, such as the one that leaves a loop; others may have.
  const bool may_capture = !start.is_idle || std::has_single_bit(++start.idle_visits);
  if (!may_capture && start.specialisations.empty()) return {};
  if (std::shared_ptr<Specialisation> one = find(start, run, values)) return {std::move(one)};
  if (!may_capture) return {};
  note_asked_values(code, start, run);
  std::shared_ptr<Specialisation> made = capture(code, offset, run);
  if (!made) return {};
  made->made_by_call = number_;
  made->missed = explain_miss(start, run);
  if (!made->missed.empty() && is_enabled(Event::recompiles))
    emit(Event::recompiles,
         concat(made->begins.file, ":", made->begins.line, ": ", made->name, ": ", made->missed));
  start.specialisations.add(made);
  if (!find(start, run, values)) return {};
  return {std::move(made), /*is_new=*/true};
}

/// In a checkpoint that is run again: what ran there in the forward.
FrameDriver::Chosen FrameDriver::repeat(CodeState& code, FrameRun& run, std::vector<PyObject*>& values) {
  const int offset = run.offset();
  const auto choice = CheckpointChoices::next(&code, offset);
  if (!choice || choice->way == CheckpointChoices::Way::native) return {};
  if (holds(*choice->program, run, values)) return {choice->program};
  Start& start = code.starts[offset];
  std::shared_ptr<Specialisation> one = find(start, run, values);
  if (!one) {
    if (std::shared_ptr<Specialisation> made = capture(code, offset, run))
      start.specialisations.add(std::move(made));
    one = find(start, run, values);
  }
  if (one && CheckpointChoices::saves_the_same(*one, *choice->program)) return {std::move(one)};
  const std::vector<PyObject*> slots = frame_values(run);
  CheckpointChoices::raise_changed(choice->program->explain_miss({slots.data(), slots.size(), nullptr}));
}

bool FrameDriver::holds(Specialisation& one, FrameRun& run, std::vector<PyObject*>& values) const {
  if (!fits_frame(one, run)) return false;
  const std::vector<PyObject*> slots = frame_values(run);
  values.resize(one.guards.wanted());
  return one.check({slots.data(), slots.size(), nullptr}, values.data()) == guards::GuardProgram::ok;
}

/// It lies uppermost, and is another one in each call.
void FrameDriver::note_read(CodeState& code, FrameRun& run, interpreter::Break why) {
  PyObject* value = run.activation().stack_base()[run.depth() - 1];
  const bool goes_on = settings_.goes_on_after(why);
  if (!goes_on && read_at(why) != DataRead::scalar && why != interpreter::Break::one_of_many) return;
  SizeHistory& sizes = code.starts[run.offset()].sizes;
  const std::string path = concat("operand ", run.depth() - 1);
  const bool are_few =
      value && PyList_CheckExact(value) && PyList_GET_SIZE(value) <= static_cast<Py_ssize_t>(most_read);
  if (!goes_on && value && (PyLong_CheckExact(value) || are_few)) sizes.expect_numbers(path);
  if (!goes_on && !(value && PyFloat_CheckExact(value))) return;
  goes_on ? sizes.expect_data(path) : sizes.expect_float(path);
  if (!value || !(PyLong_CheckExact(value) || PyFloat_CheckExact(value))) return;
  std::vector<guards::Ref>& read = goes_on ? numbers_read_ : floats_read_;
  if (read.size() == most_read) read.erase(read.begin());
  read.push_back(guards::Ref::borrow(value));
}

void FrameDriver::note_many(FrameRun& run, interpreter::Break why) {
  if (why != interpreter::Break::one_of_many) return;
  const PyObject* made = run.activation().top[-1];
  // CPython has one object for each of some numbers and letters. Numbers vary.
  const bool is_one_for_all = !made || made == Py_None || PyLong_Check(made) || PyFloat_Check(made) ||
                              (PyUnicode_Check(made) && PyUnicode_GET_LENGTH(made) <= 1) || PyType_Check(made);
  if (!is_one_for_all && made_of_many_.size() < most_read) made_of_many_.insert(made);
}

bool FrameDriver::is_of_many(const guards::Source* source, FrameRun& run) const {
  if (whole_code_ == reinterpret_cast<PyObject*>(run.code()) && whole_->many.contains(guards::to_text(source)))
    return true;
  const guards::Source* root = source;
  while (root->parent) root = root->parent;
  if (root->kind != guards::SourceKind::argument || made_of_many_.empty()) return false;
  const std::vector<PyObject*> values = frame_values(run);
  return root->index < values.size() && made_of_many_.contains(values[root->index]);
}

/// Which of its sizes they are: the first, or, as masks and classes may stand for any dimension, those that no
/// other tensor has which the frame holds.
void FrameDriver::note_sizes(FrameRun& run, interpreter::Break why) {
  using interpreter::Break;
  PyObject* read = run.activation().top[-1];
  if (read_at(why) != DataRead::shape || !read) return;
  const std::vector<at::IntArrayRef> shapes = shapes_in(read);
  if (shapes.empty()) return;
  ++shape_reads_;
  const bool is_first = why == Break::nonzero || why == Break::unique;
  std::vector<int64_t> others;
  for (PyObject** slot = run.frame()->localsplus; !is_first && slot < run.activation().top - 1; ++slot)
    for (const at::IntArrayRef shape : shapes_in(*slot)) others.insert(others.end(), shape.begin(), shape.end());
  for (const at::IntArrayRef shape : shapes) {
    for (size_t k = 0; k < shape.size(); ++k) {
      const bool is_decided = shape.size() == 1 || (is_first ? k == 0 : !contains(others, shape[k]));
      if (is_decided && shape[k] > 1 && !contains(sizes_read_, shape[k])) sizes_read_.push_back(shape[k]);
    }
  }
  if (sizes_read_.size() > most_read) sizes_read_.erase(sizes_read_.begin());
}

/// It lies uppermost where a call that makes one has run.
void FrameDriver::note_class(CodeState& code, FrameRun& run) {
  const auto start = code.starts.find(run.offset());
  if (start == code.starts.end() || !start->second.is_given_new_class || run.depth() == 0) return;
  PyObject* value = run.activation().stack_base()[run.depth() - 1];
  if (!value || !PyType_Check(value) || !guards::is_changeable(reinterpret_cast<PyTypeObject*>(value))) return;
  guards::Ref reference = guards::Ref::steal(PyWeakref_NewRef(value, nullptr));
  reference ? classes_made_.push_back(std::move(reference)) : PyErr_Clear();
}

void FrameDriver::expect_numbers(CodeState& code, Start& start, FrameRun& run) const {
  if (start.is_resumed) start.sizes.expect_counters();
  start.sizes.expect_sizes(sizes_read_);
  const Activation& a = run.activation();
  if (start.is_resumed && std::any_of(a.stack_base(), a.top, gives_items)) start.sizes.expect_items();
  const interpreter::Frame* frame = run.frame();
  for (int slot = 0; slot < frame->f_code->co_nlocalsplus; ++slot) {
    PyObject* value = frame->localsplus[slot];
    if (!value || !(PyFloat_CheckExact(value) || PyLong_CheckExact(value))) continue;
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(frame->f_code->co_localsplusnames, slot));
    const auto was_read = [&](const std::vector<guards::Ref>& numbers) {
      return std::ranges::find(numbers, value, &guards::Ref::get) != numbers.end();
    };
    if (was_read(numbers_read_)) start.sizes.expect_data(name);
    if (start.is_resumed && PyLong_CheckExact(value) && code.variables().are_counters[slot])
      start.sizes.expect_counter(name);
    if (!PyFloat_CheckExact(value)) continue;
    if (was_read(floats_read_) || (start.is_resumed && code.variables().are_reassigned[slot]))
      start.sizes.expect_float(name);
  }
}

void FrameDriver::note_end(const Place& place) {
  // The return of a frame that only hands on what was read ends its own segment alone.
  const bool is_end = !place.reason.empty() && place.id != interpreter::Break::end_of_function;
  if (settings_.fullgraph && !counts_.end && is_end && !settings_.goes_on_after(place.id)) counts_.end = place;
}

/// The specialisation that holds; `values` become those of its guards.
std::shared_ptr<Specialisation> FrameDriver::find(Start& start, FrameRun& run, std::vector<PyObject*>& values) {
  std::vector<PyObject*> slots;  // Read when the first specialisation fits.
  const auto fits = [&](const Specialisation& one) { return fits_frame(one, run); };
  const auto call = [&] {
    if (slots.empty()) slots = frame_values(run);
    return guards::Call{slots.data(), slots.size(), nullptr};
  };
  return start.specialisations.find(fits, call, values);
}

/// Why the specialisation that was used last is not for this run; empty if there is none for such frames.
std::string FrameDriver::explain_miss(const Start& start, FrameRun& run) const {
  for (const auto& one : start.specialisations) {
    if (!fits_frame(*one, run)) continue;
    const std::vector<PyObject*> slots = frame_values(run);
    return one->explain_miss({slots.data(), slots.size(), nullptr});
  }
  return {};
}

void FrameDriver::note_asked_values(CodeState& code, const Start& start, FrameRun& run) const {
  if (settings_.fullgraph) return;
  // What is made of one of many is one of many.
  const size_t few = is_behind(code, code.ask_for_many, run.offset()) ? 1 : size_t{few_of_one_call};
  // By offset: calls for which its answer was another one. The layers of one call may have several programs.
  std::map<int, std::set<uint64_t>> other;
  std::vector<PyObject*> slots;
  for (const auto& one : start.specialisations) {
    const bool served_once = one->used_by_call == one->made_by_call && one->made_by_call != number_;
    if (!served_once || !fits_frame(*one, run)) continue;
    if (slots.empty()) slots = frame_values(run);
    const std::optional<int> offset = one->asked.first_other({slots.data(), slots.size(), nullptr});
    if (offset) other[*offset].insert(one->made_by_call);
    if (!offset || other[*offset].size() < few) continue;
    code.ask_for_many.resize(code.breakpoints.size());
    code.ask_for_many[*offset] = true;
  }
}

std::shared_ptr<Specialisation> FrameDriver::capture(CodeState& code, int offset, FrameRun& run) {
  const uint64_t look = look_of(frame_values(run));
  {
    Start& start = code.starts[offset];
    start.specialisations.drop_dead();
    const bool is_full = start.specialisations.is_full(settings_.recompile_limit) ||
                         count_programs(code) >= settings_.cache_size_limit;
    const bool is_fruitless = code.fruitless >= most_fruitless;
    if (!may_capture_ || is_full || is_fruitless || !start.refused.should_try(look)) {
      counts_.wants_gradients |= start.why.id == interpreter::Break::gradients;
      return nullptr;
    }
  }
  expect_numbers(code, code.starts[offset], run);
  code.starts[offset].is_shared |= siblings_->reach(run.frame());
  const NativeOperators::Pause uncounted;
  is_capturing_ = true;
  Captured captured;
  try {
    captured = capture_frame(run, code, settings_, classes_made_,
                             [&](const guards::Source* source) { return is_of_many(source, run); });
  } catch (...) {
    is_capturing_ = false;
    throw;
  }
  is_capturing_ = false;
  for (const int breakpoint : captured.breakpoints) code.breakpoints[breakpoint] = true;
  Start& start = code.starts[offset];
  start.is_idle = captured.kind == Captured::Kind::idle;
  if (captured.made) {
    start.refused.succeeded(look);
  } else {
    start.refused.failed(look);
    start.why = captured.place;
    const bool wants_gradients = captured.kind == Captured::Kind::gradients;
    counts_.wants_gradients |= wants_gradients;
    code.fruitless += !wants_gradients;
  }
  if (captured.kind != Captured::Kind::whole && !settings_.goes_on_after(captured.place.id)) {
    note_end(captured.place);
    table_.tell_break(captured.place);
  }
  if (captured.made) announce(*captured.made);
  return std::move(captured.made);
}

void FrameDriver::move(FrameRun& run, const Outcome& outcome, std::vector<guards::Ref>& results) {
  FrameRun::State state = run.save();
  state.offset = outcome.offset;
  std::vector<interpreter::Ref> slots;
  for (size_t k = 0; k < outcome.slots.size(); ++k) {
    const Outcome::Slot& slot = outcome.slots[k];
    switch (slot.kind) {
      case Outcome::Slot::Kind::kept: slots.push_back(std::move(state.slots[k])); break;
      case Outcome::Slot::Kind::empty: slots.emplace_back(); break;
      case Outcome::Slot::Kind::made: slots.push_back(interpreter::Ref::borrow(results[slot.result].get())); break;
    }
  }
  state.slots = std::move(slots);
  run.restore(std::move(state));
}

}  // namespace braze::python
