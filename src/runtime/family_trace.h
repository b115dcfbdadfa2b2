// runtime/family_trace.h: what the programs of a family are made from: a trace whose sizes are expressions, and
// how it is compiled.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/program.h"

namespace braze::runtime {

struct FamilyTrace {
  /// `options.kept_elsewhere` are let go of, as Program does.
  FamilyTrace(capture::Trace trace, ProgramOptions options, PhaseTimes times);

  /// Throws UserError that names the guess which the values break. May run Python.
  void check_guesses(std::span<const int64_t> symbols) const;
  /// Of numbers, verified.
  capture::Trace at(std::span<const int64_t> symbols) const;
  /// Throws UserError where one begins at another place in its storage than when the trace was made, and that
  /// counts.
  /// \param arguments  tells which of them share storage; one a graph argument.
  ProgramOptions options_for(const std::vector<at::Tensor>& arguments) const;

  capture::Trace trace;
  ProgramOptions options;
  PhaseTimes times;  ///< Of the capture: part of the first program's.

 private:
  /// In bytes, of the arguments whose place counts as a whole (Trace::place_modulus).
  std::vector<std::pair<uint32_t, int64_t>> places_;
};

}  // namespace braze::runtime
