// codegen/perf_map.h: names of generated machine code for Linux's perf, which reads /tmp/perf-PID.map: one line a
// function, "START SIZE name" (tools/perf/Documentation/jit-interface.txt of the kernel's sources).
#pragma once

#include <string_view>

#include "codegen/compiler.h"

namespace braze::codegen {

/// Adds the kernel's code, if BRAZE_PERF_MAP=1 asks for it; code of GPUs has no such names. Thread-safe. Where the
/// file cannot be written nothing is.
void name_for_perf(const CompiledKernel& kernel, std::string_view name);

}  // namespace braze::codegen
