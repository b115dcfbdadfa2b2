// python/compile/recording.h: the guards, the tracer and the watcher of one captured run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// Nodes that compute something: neither numbers nor views.
size_t count_operators(const ir::Graph& graph);

class Recording {
 public:
  Recording(const std::string& name, const Settings& settings, TorchWorld::Others others);

 protected:
  /// Runs `body`, which is to want the arguments and to hold the outputs, on tracers.
  void record(const std::function<void()>& body);

  /// Nothing if the run leaves them as they were.
  std::optional<ModesChange> modes_change() const;

  /// The arguments of the graph are the first values of the guards. Before any other is wanted.
  void want_arguments();

  /// What the run changed of objects that existed before: a replay will do it again. Then it is undone.
  void take_effects(Rebuilder& rebuilder);

  void hold_outputs(const Rebuilder& rebuilder);

  /// Not while tracing.
  std::unique_ptr<Specialisation> compile(Outcome outcome);

  static GivenUp wants_gradients();

  guards::GuardProgram finish_guards();

  const Modes modes_before_ = Modes::now();
  const Settings& settings_;
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
  void keep_bound();

  std::optional<capture::TapeRecorder> tape_recorder_;
  std::optional<capture::Tape> tape_;
  runtime::ProgramOptions options_;
};

/// What `record()` gives, or why it gave up.
Captured attempt(const Settings& settings, const std::function<Captured()>& record);

}  // namespace braze::python
