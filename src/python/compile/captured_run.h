// python/compile/captured_run.h: the guards, the tracer and the watcher of one captured run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/effect_times.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "python/compile/capture.h"
#include "python/compile/modes.h"
#include "python/compile/rebuild.h"
#include "python/compile/torch_world.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::python {

/// Why a capture came to nothing.
struct GivenUp {
  Captured::Kind kind;
  Place place;
};

/// Text of a Python string, "?" if it is none.
std::string text_of(PyObject* string);

class CapturedRun {
 public:
  CapturedRun(const std::string& name, const Settings& settings, TorchWorld::Others others, SizeHistory& history);

 protected:
  /// Runs `body`, which is to want the arguments and to hold the outputs, on tracers.
  void record(const std::function<void()>& body);

  /// Nothing if the run leaves them as they were.
  std::optional<ModesChange> modes_change() const;

  /// The arguments of the graph are the first values of the guards. Before any other is wanted.
  void want_arguments();

  /// What the run changed of objects that existed before: a replay will do it again. Then it is undone.
  /// \param call  what the run was given.
  void take_effects(Rebuilder& rebuilder, const guards::Call& call);

  void hold_outputs(const Rebuilder& rebuilder, Outcome& outcome);

  /// Not while tracing.
  std::unique_ptr<Specialisation> compile(Outcome outcome);

  /// What `record` gives, or why it gave up. If there were symbols, the next capture is told to do without them.
  template <typename Record>
  Captured with_symbols(Record&& record) {
    const auto failed = [&] {
      if (world_.sizes().has_sizes()) history_.give_up();
    };
    try {
      Captured captured = record();
      captured.is_outdated |= shows_rows_ || is_to_leave_gradients(captured.kind);
      if (!captured.made && !captured.is_outdated) failed();
      return captured;
    } catch (const GivenUp& error) {
      if (shows_rows_ || is_to_leave_gradients(error.kind))
        return {.kind = error.kind, .is_outdated = true, .place = error.place};
      failed();
      throw;
    } catch (const InternalError& error) {  // Code that knows numbers only.
      if (!world_.sizes().has_sizes()) throw;
      failed();
      return {.kind = Captured::Kind::refused, .place = interpreter::BreakReason::told(error.what())};
    } catch (...) {
      failed();
      throw;
    }
  }

  /// What the run has differentiated itself has made the whole impossible to differentiate: the next one ends
  /// there.
  bool is_to_leave_gradients(Captured::Kind kind) {
    return kind == Captured::Kind::gradients &&
           tracer_.impl().own_gradients == capture::Recorder::OwnGradients::some && history_.leave_gradients();
  }

  /// Results should have a history, and would have none.
  bool loses_gradients() const;
  GivenUp wants_gradients() const;

  guards::GuardProgram finish_guards();

  /// How many things the run has decided about what varies.
  size_t decisions();

  const Modes modes_before_ = Modes::now();
  /// How many modes of torch functions are entered when the run begins, and whether handlers are left out.
  std::pair<int64_t, int> function_modes_ = {};
  const Settings& settings_;
  SizeHistory& history_;
  std::string name_;
  PhaseTimes times_;
  /// What a run needs before it begins is part of the capture: in a process's first, finding torch's operators.
  std::optional<PhaseTimer> preparing_{std::in_place, &times_, "capture"};
  bool shows_rows_ = false;  ///< A row that was copied could be told from a view: the next run copies none.
  capture::Tracer tracer_;
  guards::GuardSet guards_;
  ValueLog values_asked_{guards_};
  TorchWorld world_;
  interpreter::Watcher watcher_;
  guards::RecipeBuilder builder_;
  std::vector<guards::Ref> outputs_;  ///< Tensors that the run computed and its end needs.
  capture::Trace trace_;
  size_t op_count_ = 0;             ///< Operators of the run, without those of its backward.
  std::string not_differentiated_;  ///< Why the backward could not be recorded.
  size_t tensor_count_ = 0;         ///< Arguments that are no floats.
  bool changes_objects_ = false;    ///< Python's, that were there before.
  /// What has been compiled would never be replayed, and the next capture knows better: the run replaces a tensor
  /// to which its program is bound; or while it ran and was compiled, an operator that is Python code has imported
  /// modules, whose classes were registered with abstract ones that the run had asked.
  bool is_outdated();

 private:
  /// Sets the trace's gradients, or says why there are none.
  void differentiate(const std::vector<at::Tensor>& outputs, const capture::EffectTimes& effects);
  void keep_bound();
  void note_replaced(const guards::Call& call);
  /// Where replays read the values of symbols; what must hold of them is guarded.
  guards::NumberReads guard_sizes();
  void tell_marks();
  std::vector<Specialisation::FloatArgument> float_arguments() const;

  bool replaces_bound_ = false;
  std::optional<uint64_t> registrations_;  ///< As a guard has them.
  std::vector<Specialisation::Drawn> drawn_;

  std::optional<capture::TapeRecorder> tape_recorder_;
  std::optional<capture::Tape> tape_;
  runtime::ProgramOptions options_;
};

/// In the log of recompilations.
void tell_numbers(const Place& place);
/// What ends a capture with symbols, and one without them, there and for one reason has nothing to do with symbols.
bool is_one_place(const Place& with_symbols, const Place& without);

/// What `record()` gives, or why it gave up.
Captured attempt(const Settings& settings, const std::function<Captured()>& record);

}  // namespace braze::python
