// python/compile/compiled_function.h: a Python function that is captured, guarded and replayed.
//
// The first call runs under the evaluator of Python frames with a watcher and a Tracer (capture.h). If all that the
// function did was understood, its operators become a program, and guards say for which later calls it holds. A
// call that all guards refuse is captured anew. Where something is not understood the function's frames are run as
// chains of captured segments with the rest native in between (frame_driver.h). What a capture may do is bounded
// so that giving up is always safe: it changes nothing that existed before it.
#pragma once

#include <pybind11/pybind11.h>

namespace braze::python {

namespace py = pybind11;

/// Adds CompiledFunction to the module: CompiledFunction(function, settings=None) is callable, binds as a method
/// does, and tells counts() (calls by how they ran), reasons() (why calls ran natively, with the user's line),
/// guards() (texts, by program), steps() and report(). `settings`: see settings.h.
void add_compiled_function(py::module_& module);

/// What a CompiledFunction was made of, borrowed; null for every other object.
PyObject* compiled_from(PyObject* object) noexcept;

}  // namespace braze::python
