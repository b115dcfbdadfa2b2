// python/compile/compiled_function.h: a Python function that is captured, guarded and replayed.
//
// The first call runs under the evaluator of Python frames with a watcher and a Tracer. If all that the function
// did was understood, its operators become a program, and guards say for which later calls it holds. A call that
// any guard refuses is captured anew. A call with anything that is not understood runs natively: the capture is
// given up before that takes effect, so nothing happens twice. What a capture may do is bounded so that giving up
// is always safe: it changes nothing that existed before it.
//
// Today the whole call is one program or none: there are no graph breaks, no effects, no symbolic sizes.
#pragma once

#include <pybind11/pybind11.h>

namespace braze::python {

namespace py = pybind11;

/// Adds CompiledFunction to the module: CompiledFunction(function) is callable, binds as a method does, and tells
/// counts() (calls by how they ran), reasons() (why calls ran natively, with the user's line) and guards() (texts,
/// by program).
void add_compiled_function(py::module_& module);

}  // namespace braze::python
