#include "python/compile/backend.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <type_traits>

#include "ir/shape_env.h"
#include "ir/text.h"
#include "python/compile/events.h"
#include "python/compile/tape_builder.h"
#include "python/errors.h"
#include "python/guards/torch_values.h"
#include "python/program_options.h"
#include "runtime/autograd/training.h"
#include "runtime/autograd/training_family.h"
#include "runtime/by_sizes.h"
#include "runtime/family.h"
#include "runtime/padded_program.h"
#include "support/error.h"

namespace braze::python {
namespace {

std::string only_graph(const std::string& graph, std::string_view stage, const char* backend) {
  if (stage == "graph" || stage == "traced") return graph;
  throw UserError(concat("braze: backend \"", backend, "\" has no stage \"", stage, "\", only \"graph\""));
}

// ---- braze

int64_t microseconds(int64_t nanoseconds) {
  return nanoseconds / 1000;
}

class CompiledSegment : public SegmentProgram {
 public:
  explicit CompiledSegment(std::shared_ptr<runtime::Program> program) : program_(std::move(program)) {}

  size_t argument_count() const noexcept override { return program_->argument_count(); }
  size_t result_count() const noexcept override { return program_->result_count(); }
  bool accepts(const at::Tensor* const* arguments) const noexcept override { return program_->accepts(arguments); }
  void run(const at::Tensor* const* arguments, at::Tensor* results, bool keeps_gil) const override {
    if (keeps_gil || !program_->is_long()) return program_->run(arguments, results);
    const py::gil_scoped_release unlocked;
    program_->run(arguments, results);
  }
  std::vector<driver::StepFacts> steps() const override { return program_->facts().steps; }
  std::string code(std::string_view stage) const override { return program_->code(stage); }
  const PhaseTimes& compile_times() const noexcept override { return program_->facts().times; }
  std::shared_ptr<runtime::Program> program() const override { return program_; }

 private:
  std::shared_ptr<runtime::Program> program_;
};

/// With a history of its results.
class TrainingSegment final : public SegmentProgram {
 public:
  explicit TrainingSegment(std::shared_ptr<const runtime::TrainingProgram> program)
      : program_(std::move(program)) {}

  size_t argument_count() const noexcept override { return program_->forward()->argument_count(); }
  size_t result_count() const noexcept override { return program_->result_count(); }
  bool accepts(const at::Tensor* const* arguments) const noexcept override {
    return program_->forward()->accepts(arguments);
  }
  void run(const at::Tensor* const* arguments, at::Tensor* results, bool keeps_gil) const override {
    if (keeps_gil || !program_->forward()->is_long()) return program_->run(arguments, results);
    const py::gil_scoped_release unlocked;
    program_->run(arguments, results);
  }
  std::vector<driver::StepFacts> steps() const override { return program_->forward()->facts().steps; }
  std::string code(std::string_view stage) const override {
    std::string text = program_->forward()->code(stage);
    return program_->backward() ? text + "\n" + program_->backward()->code(stage) : text;
  }
  const PhaseTimes& compile_times() const noexcept override { return program_->forward()->facts().times; }
  std::shared_ptr<runtime::Program> program() const override { return program_->forward(); }
  std::shared_ptr<runtime::Program> backward() const override { return program_->backward(); }

 private:
  std::shared_ptr<const runtime::TrainingProgram> program_;
};

/// What was generated, for those who listen.
void tell(const runtime::Program& program) {
  const std::string& not_symbolic = program.facts().not_symbolic;
  if (!not_symbolic.empty() && is_enabled(Event::recompiles))
    emit(Event::recompiles, "compiled for these sizes alone: " + not_symbolic);
  if (is_enabled(Event::perf)) {
    std::string text = concat("compiled in ", microseconds(program.facts().times.total()), " us");
    for (const PhaseTimes::Row& row : program.facts().times.rows())
      text += concat("\n  ", row.name, ": ", microseconds(row.nanoseconds), " us");
    for (const driver::StepFacts& step : program.facts().steps)
      if (step.kind == "call") text += concat("\n  run by ATen: ", step.name, "  ", step.source);
    emit(Event::perf, text);
  }
  if (is_enabled(Event::fusion))
    for (const driver::KernelFacts& kernel : program.facts().kernels) {
      std::string text =
          concat(kernel.name, ": reads ", kernel.bytes_read, " bytes, writes ", kernel.bytes_written);
      for (const std::string& node : kernel.fused) text += "\n  " + node;
      emit(Event::fusion, text);
    }
  if (!is_enabled(Event::output_code)) return;
  std::string code = program.code("loops") + "\n" + program.code("asm");
  try {
    code += program.code("sass");
  } catch (const UserError&) {  // NVIDIA's tools are not there.
  }
  emit(Event::output_code, code);
}

void tell_all(const SegmentProgram& segment) {
  tell(*segment.program());
  if (const auto backward = segment.backward()) tell(*backward);
}

/// For a batch that a program of more rows computes.
class PaddedSegment final : public CompiledSegment {
 public:
  explicit PaddedSegment(runtime::PaddedProgram program)
      : CompiledSegment(program.program()), program_(std::move(program)) {}

  bool accepts(const at::Tensor* const* arguments) const noexcept override { return program_.accepts(arguments); }
  void run(const at::Tensor* const* arguments, at::Tensor* results, bool keeps_gil) const override {
    std::optional<py::gil_scoped_release> unlocked;
    if (!keeps_gil) unlocked.emplace();
    program_.run(arguments, results);
  }

 private:
  runtime::PaddedProgram program_;
};

/// Which sizes of a family run in programs of others, and where their arguments are then put.
class Buckets {
 public:
  Buckets(const capture::Trace& trace, const runtime::SizeBuckets& sizes) : padding_(trace, sizes) {
    if (!padding_.refused().empty() && is_enabled(Event::recompiles))
      emit(Event::recompiles, "batches are not padded to size_buckets: " + padding_.refused());
  }
  /// Null: nothing is padded for these values of the symbols, or the program for more rows has guards that refuse
  /// them.
  std::shared_ptr<const SegmentProgram> segment(const runtime::ProgramFamily& family,
                                                std::span<const int64_t> symbols,
                                                const std::vector<at::Tensor>& arguments) const {
    const std::vector<int64_t> bucket = padding_.bucket_of(symbols);
    if (std::ranges::equal(bucket, symbols)) return nullptr;
    try {
      const capture::Trace real = capture::instantiate(family.trace(), symbols);
      const capture::Trace padded = capture::instantiate(family.trace(), bucket);
      // Arguments that share storage do not do so where they are copied to.
      const auto memory =
          memory_.find_or_make(bucket, [] {}, [] { return std::make_shared<runtime::PaddedMemory>(); });
      return std::make_shared<PaddedSegment>(
          runtime::PaddedProgram(family.at(bucket, arguments), memory, real, padded));
    } catch (const UserError&) {
      return nullptr;
    }
  }

 private:
  const runtime::BatchPadding padding_;
  mutable runtime::BySizes<runtime::PaddedMemory> memory_;
};

/// Programs for all sizes that its guards let through: what the family gives for some is a Member.
template <typename Family, typename Member>
class FamilySegment final : public SegmentProgram {
 public:
  /// \param buckets  to which batches are padded; of inference alone.
  FamilySegment(capture::Trace trace, runtime::ProgramOptions options, PhaseTimes times,
                const runtime::SizeBuckets& buckets = {})
      : graph_(trace.graph) {
    const std::vector<at::Tensor> examples = options.example_arguments;
    const std::span<const int64_t> symbols = graph_->find_shape_env()->examples();
    {
      const py::gil_scoped_release unlocked;
      family_ = std::make_unique<Family>(std::move(trace), std::move(options), std::move(times));
      first_ = std::make_shared<Member>(family_->at(symbols, examples));
    }
    if constexpr (pads)
      if (!buckets.is_empty()) buckets_.emplace(family_->trace(), buckets);
    segments_.add(symbols, first_);
    tell_all(*first_);
  }

  size_t argument_count() const noexcept override { return first_->argument_count(); }
  size_t result_count() const noexcept override { return first_->result_count(); }
  bool accepts(const at::Tensor* const*) const noexcept override { return false; }
  void run(const at::Tensor* const*, at::Tensor*, bool) const override {
    throw InternalError("a segment with symbols is run without their values");
  }
  std::shared_ptr<const SegmentProgram> at(std::span<const int64_t> symbols,
                                           const at::Tensor* const* arguments) const override {
    if (std::shared_ptr<const SegmentProgram> known = segments_.find(symbols)) return known;
    std::vector<at::Tensor> tensors;
    for (size_t k = 0; k < argument_count(); ++k) tensors.push_back(*arguments[k]);
    const size_t before = family_->compiled();
    std::shared_ptr<const SegmentProgram> made;
    if constexpr (pads)
      if (buckets_) made = buckets_->segment(*family_, symbols, tensors);
    if (!made) made = std::make_shared<const Member>(family_->at(symbols, tensors));
    if (family_->compiled() != before) tell_all(*made);
    segments_.add(symbols, made);
    return made;
  }
  std::vector<driver::StepFacts> steps() const override { return latest().steps(); }
  std::string code(std::string_view stage) const override {
    return stage == "traced" ? ir::print(*graph_) : latest().code(stage);
  }
  const PhaseTimes& compile_times() const noexcept override { return first_->compile_times(); }
  std::shared_ptr<runtime::Program> program() const override { return latest().program(); }
  std::shared_ptr<runtime::Program> backward() const override { return latest().backward(); }

 private:
  static constexpr bool pads = std::is_same_v<Family, runtime::ProgramFamily>;

  Member latest() const { return Member(family_->latest()); }

  std::shared_ptr<const ir::Graph> graph_;
  std::unique_ptr<Family> family_;
  std::optional<Buckets> buckets_;               ///< None: nothing is padded.
  std::shared_ptr<const SegmentProgram> first_;  ///< Of the sizes that were captured.
  mutable runtime::BySizes<const SegmentProgram> segments_ = {};
};
using SizedSegment = FamilySegment<runtime::ProgramFamily, CompiledSegment>;
using SizedTrainingSegment = FamilySegment<runtime::TrainingFamily, TrainingSegment>;

class BrazeBackend final : public Backend {
 public:
  BrazeBackend() = default;
  explicit BrazeBackend(const py::dict& settings) {
    py::dict of_programs(settings.attr("copy")());
    if (of_programs.contains("size_buckets"))
      buckets_ = runtime::SizeBuckets::parse(of_programs.attr("pop")("size_buckets").cast<std::string>());
    options_ = program_options(of_programs);
  }

  const char* name() const noexcept override { return "braze"; }
  bool wants_tape() const noexcept override { return false; }
  bool is_differentiable() const noexcept override { return true; }
  bool takes_symbols() const noexcept override { return true; }
  std::shared_ptr<const SegmentProgram> compile(Segment segment) const override {
    runtime::ProgramOptions options = options_;
    options.example_arguments = std::move(segment.options.example_arguments);
    options.kept_elsewhere = std::move(segment.options.kept_elsewhere);
    if (!segment.trace.symbols.empty()) {
      if (segment.trace.gradients)
        return std::make_shared<SizedTrainingSegment>(std::move(segment.trace), std::move(options),
                                                      std::move(segment.times));
      return std::make_shared<SizedSegment>(std::move(segment.trace), std::move(options), std::move(segment.times),
                                            buckets_);
    }
    if (segment.trace.graph->find_shape_env()) segment.trace = capture::instantiate(segment.trace, {});
    if (segment.trace.gradients) {
      std::shared_ptr<const runtime::TrainingProgram> program;
      {
        const py::gil_scoped_release unlocked;
        program = runtime::TrainingProgram::compile(std::move(segment.trace), options, std::move(segment.times));
      }
      tell(*program->forward());
      if (program->backward()) tell(*program->backward());
      return std::make_shared<TrainingSegment>(std::move(program));
    }
    std::shared_ptr<runtime::Program> program;
    {
      const py::gil_scoped_release unlocked;
      program = runtime::Program::compile(std::move(segment.trace), options, std::move(segment.times));
    }
    tell(*program);
    return std::make_shared<CompiledSegment>(std::move(program));
  }

 private:
  runtime::ProgramOptions options_;
  runtime::SizeBuckets buckets_;
};

// ---- eager

std::vector<driver::StepFacts> steps_of(const capture::Tape& tape) {
  std::vector<driver::StepFacts> steps;
  for (const capture::Tape::Call& call : tape.calls())
    steps.push_back({"call", call.op.schema().name(), call.source});
  return steps;
}

capture::Tape taken(std::optional<capture::Tape>& tape) {
  BRAZE_CHECK(tape, "a backend that wants a tape got none");
  return *std::move(tape);
}

class TapeSegment final : public SegmentProgram {
 public:
  explicit TapeSegment(Segment segment)
      : tape_(taken(segment.tape)), graph_(ir::print(*segment.trace.graph)), times_(std::move(segment.times)) {}

  size_t argument_count() const noexcept override { return tape_.argument_count(); }
  size_t result_count() const noexcept override { return tape_.outputs().size(); }
  void run(const at::Tensor* const* arguments, at::Tensor* results, bool keeps_gil) const override {
    std::optional<py::gil_scoped_release> unlocked;
    if (!keeps_gil) unlocked.emplace();  // ATen calls operators written in Python, which take it again.
    try {
      std::ranges::move(tape_.run(arguments), results);
    } catch (const std::exception& error) {
      throw UserError(error.what());
    }
  }
  std::vector<driver::StepFacts> steps() const override { return steps_of(tape_); }
  std::string code(std::string_view stage) const override { return only_graph(graph_, stage, "eager"); }
  const PhaseTimes& compile_times() const noexcept override { return times_; }

 private:
  capture::Tape tape_;
  std::string graph_;
  PhaseTimes times_;
};

class EagerBackend final : public Backend {
 public:
  const char* name() const noexcept override { return "eager"; }
  std::shared_ptr<const SegmentProgram> compile(Segment segment) const override {
    return std::make_shared<TapeSegment>(std::move(segment));
  }
};

// ---- a callable

class PythonSegment final : public SegmentProgram {
 public:
  PythonSegment(Segment segment, const py::object& make_builder) : graph_(ir::print(*segment.trace.graph)) {
    const capture::Tape tape = taken(segment.tape);
    has_history_ = tape.has_history();
    arguments_ = tape.argument_count();
    results_ = tape.outputs().size();
    steps_ = steps_of(tape);
    {
      const PhaseTimer timer(&segment.times, "backend");
      function_ = build_from_tape(tape, segment.options.example_arguments, make_builder());
    }
    times_ = std::move(segment.times);
  }
  ~PythonSegment() override {
    const py::gil_scoped_acquire locked;
    function_ = {};
  }
  PythonSegment(const PythonSegment&) = delete;
  PythonSegment& operator=(const PythonSegment&) = delete;

  size_t argument_count() const noexcept override { return arguments_; }
  size_t result_count() const noexcept override { return results_; }
  void run(const at::Tensor* const* arguments, at::Tensor* results, bool) const override {
    py::tuple inputs(arguments_);
    for (size_t k = 0; k < arguments_; ++k)
      inputs[k] = py::reinterpret_steal<py::object>(THPVariable_Wrap(*arguments[k]));
    const py::object outputs = call(inputs);
    take(outputs, results);
    // Results that eager makes as two tensors of one memory are one node of the graph.
    for (size_t k = 0; k < results_; ++k) {
      if (std::any_of(results, results + k, [&](const at::Tensor& one) { return one.is_same(results[k]); })) {
        const at::AutoGradMode grad_mode(has_history_);
        results[k] = results[k].alias();
      }
    }
  }
  std::vector<driver::StepFacts> steps() const override { return steps_; }
  std::string code(std::string_view stage) const override { return only_graph(graph_, stage, "custom"); }
  const PhaseTimes& compile_times() const noexcept override { return times_; }

 private:
  /// Nothing of it is recorded: it is the user's compiler's code, not the user's.
  py::object call(const py::tuple& inputs) const {
    const at::AutoGradMode grad_mode(has_history_);
    return function_(*inputs);
  }
  void take(const py::object& outputs, at::Tensor* results) const {
    if (PyTuple_Check(outputs.ptr()) || PyList_Check(outputs.ptr())) {
      if (static_cast<size_t>(PySequence_Fast_GET_SIZE(outputs.ptr())) != results_) fail(outputs);
      for (size_t k = 0; k < results_; ++k) {
        PyObject* const output = PySequence_Fast_GET_ITEM(outputs.ptr(), k);
        if (!guards::is_tensor(output)) fail(outputs);
        results[k] = THPVariable_Unpack(output);
      }
      return;
    }
    if (results_ != 1 || !guards::is_tensor(outputs.ptr())) fail(outputs);
    results[0] = THPVariable_Unpack(outputs.ptr());
  }
  [[noreturn]] void fail(const py::object& outputs) const {
    throw py::type_error(
        concat("the backend's callable returned ", py::str(py::type::of(outputs)).cast<std::string>(),
               "; it must return a list or tuple of ", results_, " tensors, as the graph's output node does"));
  }

  size_t arguments_, results_;
  bool has_history_ = false;  ///< It runs under autograd.
  std::string graph_;
  std::vector<driver::StepFacts> steps_;
  py::object function_;
  PhaseTimes times_;
};

class PythonBackend final : public Backend {
 public:
  explicit PythonBackend(py::object make_builder) : make_builder_(std::move(make_builder)) {}
  ~PythonBackend() override {
    const py::gil_scoped_acquire locked;
    make_builder_ = {};
  }
  PythonBackend(const PythonBackend&) = delete;
  PythonBackend& operator=(const PythonBackend&) = delete;

  const char* name() const noexcept override { return "custom"; }
  std::shared_ptr<const SegmentProgram> compile(Segment segment) const override {
    return std::make_shared<PythonSegment>(std::move(segment), make_builder_);
  }
  int visit(visitproc visit, void* arg) const override {
    Py_VISIT(make_builder_.ptr());
    return 0;
  }

 private:
  py::object make_builder_;
};

}  // namespace

std::shared_ptr<const Backend> make_backend(py::handle backend) {
  if (backend.is_none()) return std::make_shared<BrazeBackend>();
  if (PyUnicode_Check(backend.ptr())) {
    const auto name = backend.cast<std::string>();
    if (name == "braze") return std::make_shared<BrazeBackend>();
    if (name == "eager") return std::make_shared<EagerBackend>();
  } else if (PyDict_Check(backend.ptr())) {
    return std::make_shared<BrazeBackend>(py::reinterpret_borrow<py::dict>(backend));
  } else if (PyCallable_Check(backend.ptr())) {
    return std::make_shared<PythonBackend>(py::reinterpret_borrow<py::object>(backend));
  }
  throw UserError(concat("braze: a backend is None, \"eager\", a dict or a callable, not ",
                         py::repr(backend).cast<std::string>()),
                  UserError::Kind::type);
}

}  // namespace braze::python
