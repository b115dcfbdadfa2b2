// python/compile/capture_frame.cpp: the rest of a frame's run, from where it stands to an instruction that no
// capture understands.
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "ir/graph.h"
#include "python/compile/captured_run.h"
#include "python/guards/scalar.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/instructions.h"
#include "python/user_line.h"

namespace braze::python {

namespace {

using interpreter::Activation;
using interpreter::Break;
using interpreter::BreakReason;
using interpreter::FrameRun;
using interpreter::RootFrame;
using interpreter::Step;

Place place_in(PyCodeObject* code, int offset, BreakReason why, std::string_view detail) {
  return {why, std::move(detail), text_of(code->co_filename), interpreter::line_at(code, offset)};
}

TorchWorld::Others others_at(const CodeState& code, int offset) {
  using Others = TorchWorld::Others;
  if (code.loses_tensors(offset)) return Others::all;
  return code.has_other_tensors(offset) ? Others::parameters : Others::none;
}

/// Of the standard library, or with a class statement in its code.
bool makes_class(PyFunctionObject* function) {
  const std::string name(text_of(function->func_qualname));
  if (name == "namedtuple" || name == "make_dataclass") return true;
  PyObject* constants = reinterpret_cast<PyCodeObject*>(function->func_code)->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    const auto* inner = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(constants, i));
    if (PyCode_Check(PyTuple_GET_ITEM(constants, i)) && !(inner->co_flags & CO_OPTIMIZED)) return true;
  }
  return false;
}

/// The frame stands at a call of what makes classes: a class statement's function, a class such as `type`, or a
/// function that gives one.
bool makes_class(const Activation& a, const interpreter::Instruction& one) {
  if (one.opcode != CALL || a.top - a.stack_base() < one.arg + 2) return false;
  PyObject* first = a.top[-one.arg - 2];
  PyObject* callable = first ? first : a.top[-one.arg - 1];
  if (!callable) return false;
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable)) return makes_class(reinterpret_cast<PyFunctionObject*>(callable));
  if (PyCFunction_Check(callable))
    return std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == "__build_class__";
  return callable == reinterpret_cast<PyObject*>(&PyType_Type) ? one.arg > 1 : PyType_Check(callable);
}

/// Whether an object of the run holds one that a recipe makes for somebody else.
class Shares {
 public:
  Shares(const Rebuilder& rebuilder, const interpreter::Values& values) : rebuilder_(rebuilder), values_(values) {}

  bool with(PyObject* object) const {
    std::unordered_set<PyObject*> seen;
    return with(object, seen);
  }

 private:
  struct Visit {
    const Shares& shares;
    std::unordered_set<PyObject*>& seen;
  };

  bool with(PyObject* object, std::unordered_set<PyObject*>& seen) const {
    if (guards::is_scalar(object) || values_.is_constant(object) || values_.source_of(object)) return false;
    if (!seen.insert(object).second || PyType_Check(object) || PyModule_Check(object)) return false;
    if (rebuilder_.makes(object)) return true;
    if (seen.size() > most_seen) return true;
    if (values_.tensors().is_tensor(object) || !Py_TYPE(object)->tp_traverse) return false;
    const visitproc visit = [](PyObject* referent, void* argument) {
      const auto* visit = static_cast<Visit*>(argument);
      return static_cast<int>(referent && visit->shares.with(referent, visit->seen));
    };
    Visit argument{*this, seen};
    return Py_TYPE(object)->tp_traverse(object, visit, &argument) != 0;
  }

  static constexpr size_t most_seen = 1000;
  const Rebuilder& rebuilder_;
  const interpreter::Values& values_;
};

/// The run's watcher, and what its frame asks for.
class EndsAtMany final : public interpreter::Observer {
 public:
  EndsAtMany(interpreter::Watcher& watcher, RootFrame& root, const interpreter::Offsets& ends,
             std::function<void(int offset, int opcode)> arrive)
      : watcher_(watcher), root_(root), ends_(ends), arrive_(std::move(arrive)) {}

  bool entered(interpreter::Frame* frame) override { return told(watcher_.entered(frame)); }
  void left(interpreter::Frame* frame) override {
    watcher_.left(frame);
    told(true);
  }
  bool before(Activation& a, int opcode, int arg) override {
    if (a.frame != root_.frame() || watcher_.abandoned()) return told(watcher_.before(a, opcode, arg));
    const int offset = a.offset_of(a.start);
    try {
      arrive_(offset, opcode);
    } catch (const std::exception&) {  // No memory; CPython's frames may lie between here and the caller.
      abandoned_ = true;
      return false;
    }
    if (ends_.empty() || !ends_[offset]) return told(watcher_.before(a, opcode, arg));
    root_.arrives(a);
    root_.end(a);
    has_ended_ = abandoned_ = true;
    return false;
  }
  bool after(Activation& a, int opcode, int arg, Step step) override {
    return told(watcher_.after(a, opcode, arg, step));
  }
  bool handing_over(interpreter::Handover reason) override { return told(watcher_.handing_over(reason)); }
  /// Before an instruction that asks for one value of many.
  bool has_ended() const { return has_ended_; }

 private:
  bool told(bool goes_on) {
    abandoned_ |= watcher_.abandoned();
    return goes_on;
  }

  interpreter::Watcher& watcher_;
  RootFrame& root_;
  const interpreter::Offsets& ends_;
  std::function<void(int offset, int opcode)> arrive_;
  bool has_ended_ = false;
};

class FrameCapture : CapturedRun {
 public:
  using CapturedRun::with_symbols;
  FrameCapture(FrameRun& run, CodeState& code, const Settings& settings, uint64_t stop,
               const std::vector<guards::Ref>& classes_made)
      : CapturedRun(text_of(run.code()->co_name), settings, others_at(code, run.offset()),
                    code.starts[run.offset()].sizes),
        run_(run),
        code_(code),
        stop_(stop) {
    watcher_.values().expect_anew(classes_made);
  }

  /// Runs the frame. Throws GivenUp.
  void record_run() {
    const std::vector<PyObject*> values = frame_values(run_);
    if (world_.sizes().may_vary(values)) tracer_.prepare_symbols();
    given_ = {.arguments = values.data(), .positional = values.size()};
    RootFrame root(run_.activation(), make_sources(values), stop_,
                   [&](Activation& a, int offset) { collect(a, offset); });
    root_ = &root;
    begin_ = run_.offset();
    handled_before_ = run_.activation().thread->exc_info->exc_value;
    record([&] {
      world_.seal();
      watcher_.begin(root);
      EndsAtMany observer(watcher_, root, code_.ask_for_many, [&](int offset, int opcode) {
        values_asked_.arrive(offset, decisions(), opcode == FOR_ITER);
      });
      const Step step = run_.run(observer);
      ends_at_many_ = observer.has_ended();
      finish_run(step);
    });
  }

  /// When the frame has been put back. Throws GivenUp.
  Captured finish() {
    Captured captured{.kind = outcome_.returns ? Captured::Kind::whole : Captured::Kind::broken,
                      .place = ends_at_many_ ? place_of_many() : watcher_.place(),
                      .breakpoints = breakpoints_};
    if (op_count_ == 0) {
      // What raises says nothing of the way that other arguments go.
      captured.kind = raises_ ? Captured::Kind::refused : Captured::Kind::idle;
      return captured;
    }
    captured.made = compile(std::move(outcome_));
    captured.is_outdated = is_outdated();
    describe(*captured.made);
    captured.made->asked = std::move(values_asked_).take();
    return captured;
  }

  /// An instruction has asked for what is another value at each call: the next run ends before it.
  bool ends_earlier(const std::function<bool(const guards::Source*)>& is_many) {
    const std::optional<int> offset = settings_.fullgraph ? std::nullopt : values_asked_.first_of(is_many);
    if (!offset || (!code_.ask_for_many.empty() && code_.ask_for_many[*offset])) return false;
    code_.ask_for_many.resize(code_.breakpoints.size());
    return code_.ask_for_many[*offset] = true;
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
      if (makes_class(a, last)) code_.starts[last.next].is_given_new_class = true;
      if (a.thread->exc_info->exc_value != handled_before_) throw NotRebuilt{"the exception that is being handled"};
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
      take_effects(rebuilder, given_);
      note_unset_variables(a.code()->co_nlocalsplus);
      hold_outputs(rebuilder, outcome_);
      outcome_.recipe = std::move(builder_).finish(results);
      outcome_.modes = modes_change();
    } catch (const NotRebuilt& error) {
      failure_ = GivenUp{Captured::Kind::refused, place_of_end(a.code(), offset, error.reason)};
    } catch (const std::exception& error) {
      failure_ = GivenUp{Captured::Kind::refused, place_in(a.code(), offset, BreakReason::told(error.what()), "")};
    }
  }

  Place place_of_many() const { return place_in(run_.code(), outcome_.offset, Break::one_of_many, ""); }

  /// Where the run cannot end, for what it would have to leave: what ends it is the reason, if anything but its
  /// end.
  Place place_of_end(PyCodeObject* code, int offset, const std::string& left) const {
    const Place& why = watcher_.place();
    const bool is_end = !watcher_.abandoned() || why.id == Break::run_was_to_end_here;
    return is_end ? place_in(code, offset, Break::result_not_rebuilt, left) : why;
  }

  void collect_slots(Rebuilder& rebuilder, Activation& a, int offset, std::vector<guards::RecipeNode>& results) {
    using Kind = Outcome::Slot::Kind;
    const Variables& variables = code_.variables();
    const bool is_looked_at = variables.are_read_by_name || shows_variables(a, offset);
    const int locals = a.code()->co_nlocalsplus, count = static_cast<int>(a.top - a.frame->localsplus);
    std::vector<int> dead;
    const auto make = [&](int slot) {
      outcome_.slots[slot] = {Kind::made, static_cast<uint32_t>(results.size())};
      results.push_back(slot_node(rebuilder, a, slot));
    };
    outcome_.slots.resize(count);
    for (int slot = 0; slot < count; ++slot) {
      const bool is_local = slot < locals;
      const interpreter::Passed& passed = root_->passed_on(slot);
      // A tensor that nobody reads any more need not be computed; what was there before may have a finalizer, and
      // stays as long as natively. All else is for those who look at a frame's variables from outside.
      const bool is_dead = is_local && !passed && !is_looked_at && !variables.liveness.is_live(offset, slot) &&
                           !costs_nothing(a.local(slot));
      if (!a.local(slot)) {
        // It may be set where the segment runs again, which does nothing with it.
        if (is_local && root_->change(slot) == RootFrame::Change::none) outcome_.slots[slot].kind = Kind::kept;
        continue;
      }
      if (is_dead)
        dead.push_back(slot);
      else if (is_local && passed.source && passed.source == own_sources_[slot])
        outcome_.slots[slot].kind = Kind::kept;
      else
        make(slot);
    }
    // Weak references tell how long an object lives: what is made for others stays with this variable too.
    const auto revive = [&](int slot) {
      const Shares shares(rebuilder, watcher_.values());
      if (!shares.with(a.local(slot))) return false;
      make(slot);
      return true;
    };
    while (std::erase_if(dead, revive) > 0) {
    }
  }

  void note_unset_variables(int locals) {
    using Change = RootFrame::Change;
    for (int slot = 0; slot < locals; ++slot)
      if (const Change change = root_->change(slot); !own_sources_[slot] && change != Change::none)
        unset_variables_.push_back({slot, change == Change::taken});
    const auto is_drop = [](const guards::Guard& guard) { return guard.kind == guards::GuardKind::drops; };
    dropped_ = unset_variables_.size() + static_cast<size_t>(std::ranges::count_if(guards_.guards(), is_drop));
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
    made.begins = place_in(run_.code(), begin_, Break::other, "");
    for (int k = 0; k < run_.depth(); ++k) made.empty_stack_slots.push_back(!run_.activation().stack_base()[k]);
    made.unset_variables = unset_variables_;
    made.dropped = dropped_;
    made.globals = run_.frame()->f_globals;
    made.builtins = run_.frame()->f_builtins;
    made.held.push_back(guards::Ref::borrow(made.globals));
    made.held.push_back(guards::Ref::borrow(made.builtins));
  }

  FrameRun& run_;
  CodeState& code_;
  guards::Call given_;  ///< What the frame held at the beginning. While it runs.
  uint64_t stop_, repeat_until_ = 0;
  RootFrame* root_ = nullptr;
  std::vector<const guards::Source*> own_sources_;  ///< By slot: what it held at the beginning.
  PyObject* handled_before_ = nullptr;
  int begin_ = 0;
  bool ends_at_many_ = false;
  bool raises_ = false;  ///< It ended before a `raise`.
  std::vector<int> breakpoints_;
  std::vector<Specialisation::Unset> unset_variables_;
  size_t dropped_ = 0;
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

}  // namespace

Captured capture_frame(FrameRun& run, CodeState& code, const Settings& settings,
                       const std::vector<guards::Ref>& classes_made,
                       const std::function<bool(const guards::Source*)>& is_many) {
  // A run that fails inside of a callee, or leaves what cannot be rebuilt, is repeated up to an earlier
  // instruction.
  uint64_t stop = 0;
  std::optional<Place> first_place;
  std::vector<int> breakpoints;
  struct Failure {
    uint64_t stop;
    Place place;
  };
  std::optional<Failure> with_symbols;  // Until a run without them has been seen.
  bool may_have_symbols = true;
  constexpr int most_runs = 3;
  for (int runs_left = most_runs;; --runs_left) {
    const uint64_t asked = stop;
    const size_t known_breakpoints = breakpoints.size();
    Captured captured = attempt(settings, [&] {
      FrameState before(run);
      FrameCapture capture(run, code, settings, stop, classes_made);
      return capture.with_symbols([&] {
        stop = 0;
        try {
          capture.record_run();
          if (capture.ends_earlier(is_many)) return Captured{.kind = Captured::Kind::refused, .is_outdated = true};
        } catch (const GivenUp& error) {
          if (capture.ends_earlier(is_many)) return Captured{.kind = Captured::Kind::refused, .is_outdated = true};
          stop = capture.repeat_until();
          breakpoints.insert(breakpoints.end(), capture.breakpoints().begin(), capture.breakpoints().end());
          return Captured{.kind = error.kind, .place = error.place};
        }
        before.put_back();
        return capture.finish();
      });
    });
    if (captured.is_outdated) {  // It begins anew, and ends elsewhere.
      stop = asked;
      breakpoints.resize(known_breakpoints);
      runs_left = most_runs + 1;
      may_have_symbols = true;
      continue;
    }
    SizeHistory& history = code.starts[run.offset()].sizes;
    if (history.meets_draws()) {
      stop = asked;
      breakpoints.resize(known_breakpoints);
      ++runs_left;
      continue;
    }
    // Numbers go where symbols do not: no breakpoint is there because of these.
    if (history.gives_up() && captured.kind != Captured::Kind::gradients) {
      with_symbols = {std::exchange(stop, asked), captured.place};
      breakpoints.resize(known_breakpoints);
      continue;
    }
    if (const std::optional<Failure> failure = std::exchange(with_symbols, std::nullopt)) {
      // What ends both runs in the midst of the same instruction has nothing to do with symbols.
      const bool is_same = stop == failure->stop && (stop != 0 || is_one_place(captured.place, failure->place));
      if (may_have_symbols && !captured.made && is_same) {
        may_have_symbols = false;
        history.take_up_again();
        ++runs_left;
      } else {
        tell_numbers(failure->place);
      }
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
