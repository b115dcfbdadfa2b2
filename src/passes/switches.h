// passes/switches.h: the environment variables that help to find a fault in the passes.
//
//   BRAZE_PASSES_OFF=cse,simplify    leaves those passes (or groups of rules) out
//   BRAZE_PRINT_AFTER=cse | all      prints the graph to stderr after those passes
//   BRAZE_VERIFY=1                   runs the verifier after every pass
//   BRAZE_REWRITES=N                 stops each walk of rules after N rewrites, to bisect
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace braze::passes {

struct Switches {
  std::string_view passes_off, print_after;  ///< Comma-separated names. Texts of the environment.
  bool verify = false;
  int64_t rewrites = INT64_MAX;

  static Switches from_environment();
  /// Throws UserError if one of them names none of `known`.
  void check(std::span<const std::string_view> known) const;
  bool is_off(std::string_view pass) const;
  bool prints_after(std::string_view pass) const;
};

}  // namespace braze::passes
