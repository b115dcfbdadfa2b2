// python/compile/late_reads.h: capture::LateReads of Python's names (braze/_late_reads.py).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "capture/late_reads.h"

namespace braze::python {

/// How many numbers and texts the function at this address reads by name (as an object it would be guarded in all
/// its parts). Negative: it may read something else, of which nobody can tell whether it has changed.
int64_t count_late_reads(uintptr_t function);
/// Null: there are none. \param name  of the autograd.Function whose backward it is.
std::shared_ptr<const capture::LateReads> late_reads(std::string name, uintptr_t function);

}  // namespace braze::python
