// runtime/family.h: the programs of a trace whose sizes are expressions: one for all that its guards let through.
//
//   ProgramFamily family(std::move(trace), options);
//   family.at(symbols, arguments)->run(arguments);        // the values of the trace's symbols, by slot
//
// This is the one place where values of symbols become a program. The trace is lowered and compiled once
// (driver::SymbolicArtifact), with kernels that take sizes as arguments; for each set of values that artifact is
// bound to memory of these sizes, which makes no code. Where lowering has no form that is right at all sizes, the
// trace is instantiated for each set of values, and compiled. What was used last is kept.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/by_sizes.h"
#include "runtime/family_trace.h"
#include "runtime/program.h"

namespace braze::runtime {

class ProgramFamily {
 public:
  ProgramFamily(capture::Trace trace, ProgramOptions options, PhaseTimes times)
      : source_(std::move(trace), std::move(options), std::move(times)) {}
  ProgramFamily(const ProgramFamily&) = delete;
  ProgramFamily& operator=(const ProgramFamily&) = delete;

  /// From several threads at once. Throws UserError that names the guard which the values break.
  /// \param arguments  tells which of them share storage; one a graph argument.
  std::shared_ptr<Program> at(std::span<const int64_t> symbols, const std::vector<at::Tensor>& arguments) const;
  /// What was asked for last.
  std::shared_ptr<Program> latest() const { return programs_.latest(); }

  const capture::Trace& trace() const { return source_.trace; }
  size_t compiled() const { return compiled_; }  ///< So often was code made.

 private:
  // By one thread at a time: what BySizes makes. They alone use what follows it.
  std::shared_ptr<Program> make(std::span<const int64_t> symbols, const ProgramOptions& options) const;
  /// Right for these values; made now if none is and there may be another. Null: none. Throws loops::NotSymbolic.
  const driver::SymbolicArtifact* artifact_for(std::span<const int64_t> symbols, const ProgramOptions& options,
                                               const PhaseTimes& times) const;

  const FamilyTrace source_;
  mutable BySizes<Program> programs_;
  mutable std::vector<std::shared_ptr<const driver::SymbolicArtifact>> artifacts_;
  mutable std::string not_symbolic_;  ///< Why no artifact is for all sizes; empty: one may be.
  mutable std::atomic<size_t> compiled_{0};
};

}  // namespace braze::runtime
