// python/compile/promises.h: what users say of functions that a capture cannot see for itself.
#pragma once

#include <pybind11/pybind11.h>

#include "python/interpreter/watch/values.h"

namespace braze::python {

using interpreter::Promise;

/// What was said of `function`; Promise::none for nearly all.
Promise promise_about(PyObject* function) noexcept;

/// Adds to the module (torch.compiler has functions of these names):
///   allow_in_graph(function)         Promise::in_graph from now on
///   assume_constant_result(function) Promise::constant from now on
/// They raise TypeError for what has no weak references: nobody is kept alive.
void add_promises(pybind11::module_& module);

}  // namespace braze::python
