#include "runtime/family.h"

#include <algorithm>

#include "capture/guess_shapes.h"
#include "compile/driver.h"
#include "ir/clone.h"
#include "ir/text.h"
#include "loops/symbolic_plan.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

/// Of one trace: each is made for what is fast at the sizes that asked for it (a row that fits into a cache, say).
constexpr size_t most_artifacts = 3;

capture::Trace let_go(capture::Trace trace, const std::unordered_set<const c10::TensorImpl*>& kept_elsewhere) {
  trace.bound.let_go(kept_elsewhere);
  return trace;
}

}  // namespace

ProgramFamily::ProgramFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times)
    : trace_(let_go(std::move(trace), options.kept_elsewhere)),
      options_(std::move(options)),
      times_(std::move(times)) {}

std::shared_ptr<Program> ProgramFamily::at(std::span<const int64_t> symbols,
                                           const std::vector<at::Tensor>& arguments) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::shared_ptr<Program> known = programs_.find(symbols)) return known;
  }
  // It may run Python, whose lock another thread has that waits for this one's.
  capture::check_guesses(trace_, symbols);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::shared_ptr<Program> known = programs_.find(symbols)) return known;
  ProgramOptions options = options_;
  options.example_arguments = arguments;
  std::shared_ptr<Program> program = make(symbols, options);
  programs_.add(symbols, program);
  return program;
}

capture::Trace ProgramFamily::trace_at(std::span<const int64_t> symbols) const {
  capture::Trace trace = capture::instantiate(trace_, symbols);
  // A size that does not follow as a rule has said would be memory that is written beyond its end.
  ir::verify(*trace.graph);
  return trace;
}

std::shared_ptr<Program> ProgramFamily::make(std::span<const int64_t> symbols,
                                             const ProgramOptions& options) const {
  const PhaseTimes times = compiled_ == 0 ? times_ : PhaseTimes();
  try {
    if (const driver::SymbolicArtifact* artifact = artifact_for(symbols, times))
      return Program::compile_at(trace_at(symbols), *artifact, symbols, options);
  } catch (const loops::NotSymbolic& error) {
    if (not_symbolic_.empty()) not_symbolic_ = error.what();
  }
  ++compiled_;
  ProgramOptions of_numbers = options;
  of_numbers.not_symbolic =
      not_symbolic_.empty() ? "its guards hold for none of the artifacts kept" : not_symbolic_;
  return Program::compile(trace_at(symbols), of_numbers, times);
}

const driver::SymbolicArtifact* ProgramFamily::artifact_for(std::span<const int64_t> symbols,
                                                            const PhaseTimes& times) const {
  if (!not_symbolic_.empty()) return nullptr;
  for (const auto& artifact : artifacts_)
    if (!artifact->plan.refuses(symbols)) return artifact.get();
  if (artifacts_.size() == most_artifacts) return nullptr;
  // A copy: guards that lowering adds are of this artifact, not of the trace.
  const std::unique_ptr<ir::Graph> graph = ir::clone(*trace_.graph, symbols);
  auto artifact = Program::compile_symbolic(*graph, options_, {}, times);
  ++compiled_;
  if (artifact->plan.refuses(symbols)) throw loops::NotSymbolic("its guards do not hold for its own example");
  artifacts_.push_back(std::move(artifact));
  return artifacts_.back().get();
}

std::shared_ptr<Program> ProgramFamily::latest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Program> one = programs_.latest();
  BRAZE_CHECK(one, "a family without a program");
  return one;
}

}  // namespace braze::runtime
