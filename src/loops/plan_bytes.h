// loops/plan_bytes.h: plans as bytes (support/archive.h). Kernels are kept as their text.
#pragma once

#include "loops/plan.h"
#include "loops/symbolic_plan.h"
#include "support/archive.h"

namespace braze::loops {

void write(ArchiveWriter& archive, const Plan& plan);
/// Fails the archive where the bytes are no plan that verify() accepts.
Plan read_plan(ArchiveReader& archive);

void write(ArchiveWriter& archive, const SymbolicPlan& plan);
/// Likewise, for the examples; other values of the symbols give other numbers in the same places.
SymbolicPlan read_symbolic_plan(ArchiveReader& archive);

}  // namespace braze::loops
