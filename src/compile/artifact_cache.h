// compile/artifact_cache.h: what graphs have become, kept on disk, so that a process which compiles a known graph
// neither rewrites nor lowers it.
//
// An entry is the plan of an artifact, as bytes that are verified when they are read (loops/plan_bytes.h), and what
// Facts need beside it. The machine code of its kernels lies under their own hashes, because artifacts share it
// (codegen/compiler.h); where some is missing it is made from the plan's kernels.
#pragma once

#include <cstddef>
#include <optional>

#include "compile/driver.h"
#include "support/hash.h"

namespace braze::driver {

/// Of all that an artifact follows from: the graph with the user's lines, the options, this build of braze. Nothing
/// where nothing is to be kept: the cache is off, a fault is being looked for (passes/switches.h), a stage before
/// machine code is wanted, or the target is none of the known ones.
std::optional<Hash128> artifact_key(const ir::Graph& graph, const Options& options);

/// \tparam AnyPlan  loops::Plan or loops::SymbolicPlan.
template <typename AnyPlan>
struct KeptPlan {
  AnyPlan plan;
  size_t nodes = 0;  ///< As in Facts.
  ConvolutionLayout convolutions = ConvolutionLayout::traced;
};

/// Nothing where there is none, or none that is whole and undamaged.
template <typename AnyPlan>
std::optional<KeptPlan<AnyPlan>> find_plan(const Hash128& key);
/// No error of the disk is raised.
template <typename AnyPlan>
void keep_plan(const Hash128& key, const AnyPlan& plan, const Facts& facts);

}  // namespace braze::driver
