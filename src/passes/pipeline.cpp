#include "passes/pipeline.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "ir/text.h"
#include "passes/attention.h"
#include "passes/bias_of_products.h"
#include "passes/canonicalize_views.h"
#include "passes/cast_chains.h"
#include "passes/constant_folding.h"
#include "passes/cse.h"
#include "passes/dead_code.h"
#include "passes/decompose.h"
#include "passes/early_gathers.h"
#include "passes/gelu_of_products.h"
#include "passes/number_copies.h"
#include "passes/rewrite.h"
#include "passes/round_halves.h"
#include "passes/simplify.h"
#include "passes/switches.h"
#include "support/error.h"

namespace braze::passes {

using ir::Graph;

namespace {

void rewrite_all(Graph& graph) {
  rewrite(graph);
}

// clang-format off
constexpr Pass passes[] = {
  {"dead_code",  dead_code,   "less to do for the others"},
  {"rewrite",    rewrite_all, "all node-local rules in one walk; attention needs canonical views"},
  {"cse",        cse,         "equal masks and scales, which the walk has made alike"},
  {"number_copies", number_copies, "those that nobody wants are gone, and equal ones are one"},
  {"attention",  attention,   "before softmax is opened"},
  {"dead_code",  dead_code,   "so that a softmax that attention took is not opened"},
  {"bias_of_products", bias_of_products, "nobody reads a product who is not there"},
  {"decompose",  decompose,   "lowering knows no composites"},
  {"rewrite",    rewrite_all, "conversions and numbers that opening brought"},
  {"early_gathers", early_gathers, "softmax is open; two gathers of one value are equal"},
  {"cse",        cse,         "sums that mean and var share"},
  {"dead_code",  dead_code,   "mean and rstd that nobody asked for"},
};

// What runs on request, and the groups of `rewrite` alone: for braze-opt.
constexpr Pass others[] = {
  {"round_halves",       round_halves,       "before all others, where eager's rounding is wanted"},
  {"round_halves_where_seen", round_halves_where_seen, "likewise, where it is not"},
  {"gelu_of_products",   gelu_of_products,   "before all others, where eager's rounding is not wanted: gelu is whole"},
  {"cast_chains",        cast_chains,        "conversions that another one undoes or repeats"},
  {"canonicalize_views", canonicalize_views, "one view where several in a row stood"},
  {"constant_folding",   constant_folding,   "arithmetic on numbers known now"},
  {"simplify",           simplify,           "algebra that is exact"},
};
// clang-format on

void after(const Pass& pass, const Graph& graph, const Switches& switches, bool verify_each) {
  if (switches.prints_after(pass.name))
    std::fprintf(stderr, "; after %s\n%s", std::string(pass.name).c_str(),
                 ir::print(graph, {.sources = true}).c_str());
  if (!verify_each && !switches.verify) return;
  try {
    ir::verify(graph);
  } catch (const InternalError& error) {
    throw InternalError(concat("after pass ", pass.name, ": ", error.what()));
  }
}

/// Each once.
std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const std::span<const Pass> table : {std::span<const Pass>(passes), std::span<const Pass>(others)})
    for (const Pass& pass : table)
      if (std::ranges::find(all, pass.name) == all.end()) all.push_back(pass.name);
  return all;
}

Switches checked_switches() {
  Switches switches = Switches::from_environment();
  if (!switches.passes_off.empty() || !switches.print_after.empty()) switches.check(names());
  return switches;
}

}  // namespace

std::span<const Pass> pipeline() {
  return passes;
}

const Pass* find(std::string_view name) {
  for (const std::span<const Pass> table : {std::span<const Pass>(passes), std::span<const Pass>(others)})
    if (const auto row = std::ranges::find(table, name, &Pass::name); row != table.end()) return &*row;
  return nullptr;
}

void check_switches() {
  checked_switches();
}

void run(Graph& graph, PhaseTimes* times, bool verify_each) {
  const PhaseTimer whole(times, "passes");
  const Switches switches = checked_switches();
  for (const Pass& pass : passes) {
    if (switches.is_off(pass.name)) continue;
    {
      const std::string phase = concat("passes/", pass.name);
      const PhaseTimer timer(times, phase.c_str());
      pass.run(graph);
    }
    after(pass, graph, switches, verify_each);
  }
}

}  // namespace braze::passes
