// python/interpreter/functions.h: the evaluator's face for tests.
#pragma once

#include <Python.h>

namespace braze::interpreter {

/// Adds to a module:
///   interpret(function, /, *args, **kwargs)  calls it with all Python frames below evaluated by braze
///   interpreter_statistics()                 what this thread's evaluator did, as a dict: instructions, frames,
///                                            and handovers by reason
/// Returns 0, or -1 with an exception.
int add_functions(PyObject* module);

}  // namespace braze::interpreter
