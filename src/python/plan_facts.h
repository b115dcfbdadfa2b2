// python/plan_facts.h: a program's plan as Python values, for reports.
#pragma once

#include <pybind11/pybind11.h>

#include "loops/plan.h"

namespace braze::python {

/// {"arena_bytes", "unplanned_bytes", "buffers", "steps", "outputs"}, in the words of loops/plan.h:
///   buffers  {"kind", "index", "bytes", "offset", "part_of", "zeroed", "type", "device"}, "type" as in a graph:
///            "f32[4,8]"
///   steps    {"kind", "name", "source", "reads", "writes", "bytes_read", "bytes_written", "fused", "join",
///            "operations"}; reads
///            and writes are numbers of buffers; calls have no bytes and no fused
///   outputs  numbers of buffers
pybind11::dict plan_facts(const loops::Plan& plan);

}  // namespace braze::python
