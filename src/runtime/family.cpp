#include "runtime/family.h"

#include <algorithm>

#include "compile/driver.h"
#include "ir/clone.h"
#include "loops/symbolic_plan.h"
#include "runtime/inputs_apart.h"

namespace braze::runtime {

namespace {

/// Of one trace: each is made for what is fast at the sizes that asked for it (a row that fits into a cache, say).
constexpr size_t most_artifacts = 3;

}  // namespace

std::shared_ptr<Program> ProgramFamily::at(std::span<const int64_t> symbols,
                                           const std::vector<at::Tensor>& arguments) const {
  return programs_.find_or_make(
      symbols, [&] { source_.check_guesses(symbols); },
      [&] { return make(symbols, source_.options_for(arguments)); });
}

std::shared_ptr<Program> ProgramFamily::make(std::span<const int64_t> symbols,
                                             const ProgramOptions& options) const {
  const PhaseTimes times = compiled_ == 0 ? source_.times : PhaseTimes();
  try {
    if (const driver::SymbolicArtifact* artifact = artifact_for(symbols, options, times))
      return Program::compile_at(source_.at(symbols), *artifact, symbols, options);
  } catch (const loops::NotSymbolic& error) {
    if (not_symbolic_.empty()) not_symbolic_ = error.what();
  }
  ++compiled_;
  ProgramOptions of_numbers = options;
  of_numbers.not_symbolic =
      not_symbolic_.empty() ? "its guards hold for none of the artifacts kept" : not_symbolic_;
  return Program::compile(source_.at(symbols), of_numbers, times);
}

const driver::SymbolicArtifact* ProgramFamily::artifact_for(std::span<const int64_t> symbols,
                                                            const ProgramOptions& options,
                                                            const PhaseTimes& times) const {
  if (!not_symbolic_.empty()) return nullptr;
  for (const auto& artifact : artifacts_)
    if (!artifact->plan.refuses(symbols)) return artifact.get();
  if (artifacts_.size() == most_artifacts) return nullptr;
  // A copy: guards that lowering adds are of this artifact, not of the trace.
  const std::unique_ptr<ir::Graph> graph = ir::clone(*source_.trace.graph, symbols);
  auto artifact = Program::compile_symbolic(*graph, source_.options,
                                            inputs_apart(source_.trace, options.example_arguments), times);
  ++compiled_;
  if (artifact->plan.refuses(symbols)) throw loops::NotSymbolic("its guards do not hold for its own example");
  artifacts_.push_back(std::move(artifact));
  return artifacts_.back().get();
}

}  // namespace braze::runtime
