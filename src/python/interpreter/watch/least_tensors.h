// python/interpreter/watch/least_tensors.h: min() and max() of tensors that are one number each.
//
//   d[i, j] = cost[i, j] + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
//
// C code asks each comparison for its truth, and gives one of the objects. An operator that selects computes the
// same number, but makes a tensor of its own. Where the very next instruction computes with it and leaves nothing
// else of it, nobody can tell.
#pragma once

#include <span>

#include "python/interpreter/watch/watched_run.h"

namespace braze::interpreter {

/// The name of the form that selects, where this call is one of such tensors; null for all other calls.
PyObject* selects_tensor(WatchedRun& run, PyObject* function, std::span<PyObject* const> arguments);

}  // namespace braze::interpreter
