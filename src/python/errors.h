// python/errors.h: braze's exceptions as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

namespace braze::python {

namespace py = pybind11;

/// Adds Error (a RuntimeError), ArgumentTypeError, ArgumentValueError, IndexError (each also of Python's own kind)
/// and InternalError to the module.
void add_exceptions(py::module_& module);

/// Turns the C++ exception now being handled into a Python one: braze's kinds, torch's, Python's own.
/// Call inside of `catch (...)`.
void set_python_error() noexcept;

/// Throws the exception that the interpreter has set.
[[noreturn]] void throw_python_error();

}  // namespace braze::python
