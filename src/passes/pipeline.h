// passes/pipeline.h: every pass, in order.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "ir/graph.h"
#include "support/phases.h"

namespace braze::passes {

/// A pass changes a graph in place and keeps what it computes.
struct Pass {
  std::string_view name;  ///< As in `braze-opt --pass=NAME`.
  void (*run)(ir::Graph& graph);
  std::string_view why;
};

/// The table of contents. The last passes open composites, so that lowering sees only ops that it knows.
std::span<const Pass> pipeline();
const Pass* find(std::string_view name);

/// Throws UserError if a switch of the environment names what is no pass.
void check_switches();

/// Runs them all; phases "passes" and "passes/NAME". With `verify_each` (or BRAZE_VERIFY=1) the verifier runs after
/// every pass.
void run(ir::Graph& graph, PhaseTimes* times = nullptr, bool verify_each = false);

}  // namespace braze::passes
