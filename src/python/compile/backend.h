// python/compile/backend.h: what turns a recorded segment into something that runs: one of the backends.
//
//   None      braze's own compiler                    runtime::Program
//   dict      the same with options                   {"fusion": True, "verify": False, ...}
//   "eager"   the recorded operators, run by ATen     capture::Tape
//   callable  somebody else's compiler                python/compile/tape_builder.h tells how it is called
//
//   const std::shared_ptr<const Backend> backend = make_backend(settings["backend"]);
//   if (backend->wants_tape()) ...  // keep one: capture/tape.h
//   auto program = backend->compile({std::move(trace), std::move(tape), options, std::move(times)});
//   program->run(arguments, results);
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/tape.h"
#include "capture/trace.h"
#include "runtime/program.h"
#include "support/phases.h"

namespace braze::python {

namespace py = pybind11;

/// A compiled segment: tensors in, tensors out, in the order of the graph's arguments and of the trace's outputs.
/// Immutable; several threads may run one at once. All of it needs the GIL.
class SegmentProgram {
 public:
  virtual ~SegmentProgram() = default;

  virtual size_t argument_count() const noexcept = 0;
  virtual size_t result_count() const noexcept = 0;
  /// The cheap test of the arguments' form.
  virtual bool accepts(const at::Tensor* const*) const noexcept { return true; }
  /// `arguments` points to argument_count() tensors, `results` to room for result_count(). Releases the GIL if it
  /// takes long, unless `keeps_gil`: then no other thread changes what the guards have seen. Results require grad
  /// where eager's do: where a backend cannot say how they depend on inputs, nothing is captured.
  /// Throws UserError if the segment must be run natively: nothing was written, no random number drawn. Whatever
  /// else it throws goes to the user: what a compiler of theirs has raised.
  virtual void run(const at::Tensor* const* arguments, at::Tensor* results, bool keeps_gil) const = 0;
  /// Of a segment whose sizes are expressions: what runs for these values of its symbols, by slot. Null: it has
  /// none. Throws UserError for values that it does not take.
  virtual std::shared_ptr<const SegmentProgram> at(std::span<const int64_t>, const at::Tensor* const*) const {
    return nullptr;
  }

  /// What a run consists of, for people.
  virtual std::vector<driver::StepFacts> steps() const = 0;
  /// stage: as of runtime::Program; another backend has nothing but "graph".
  virtual std::string code(std::string_view stage) const = 0;
  virtual const PhaseTimes& compile_times() const noexcept = 0;
  /// What braze's own compiler made; null for other backends.
  virtual std::shared_ptr<runtime::Program> program() const { return nullptr; }
  /// The backward of that; null if there is none.
  virtual std::shared_ptr<runtime::Program> backward() const { return nullptr; }
};

/// What a capture hands over.
struct Segment {
  capture::Trace trace;
  std::optional<capture::Tape> tape;  ///< If the backend wants one.
  runtime::ProgramOptions options;    ///< The example arguments; the backend knows its own options.
  PhaseTimes times;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const noexcept = 0;
  virtual bool wants_tape() const noexcept { return true; }
  /// It compiles traces with a backward: results of the program then have a history.
  virtual bool is_differentiable() const noexcept { return false; }
  /// Segments may have symbols.
  virtual bool takes_symbols() const noexcept { return false; }
  /// Not while a capture is going on: a compiler of the user's is Python code. Throws what that raises, and
  /// UserError for what the backend cannot compile.
  virtual std::shared_ptr<const SegmentProgram> compile(Segment segment) const = 0;
  /// Objects that it keeps alive, for the garbage collector.
  virtual int visit(visitproc, void*) const { return 0; }
};

/// \param backend  None, "eager", a dict or a callable. Throws UserError for anything else.
std::shared_ptr<const Backend> make_backend(py::handle backend);

}  // namespace braze::python
