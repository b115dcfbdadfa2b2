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

/// For functions that CPython calls: what `body` gives (anything that converts to py::object) as a new reference,
/// or null with the exception set.
///   PyObject* program_name(PyObject* self, void*) {
///     return guarded([&] { return py::str(state_of(self).name); });
///   }
template <typename Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return py::object(body()).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace braze::python
