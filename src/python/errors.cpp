// python/errors.cpp
#include "python/errors.h"

#include <torch/csrc/Exceptions.h>

#include "support/error.h"

namespace braze::python {

namespace {

// Live as long as the interpreter: a C extension is never unloaded, and exceptions may be raised at any time.
PyObject* runtime_error = nullptr;
PyObject* type_error = nullptr;
PyObject* value_error = nullptr;
PyObject* index_error = nullptr;
PyObject* internal_error = nullptr;

PyObject* add(py::module_& module, const char* name, const char* doc, PyObject* first, PyObject* second) {
  const std::string full = std::string("braze.") + name;
  const py::object bases = second ? py::object(py::make_tuple(py::handle(first), py::handle(second)))
                                  : py::reinterpret_borrow<py::object>(first);
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (!type) throw py::error_already_set();
  module.add_object(name, py::handle(type));
  return type;
}

PyObject* type_of(UserError::Kind kind) {
  switch (kind) {
    case UserError::Kind::runtime: return runtime_error;
    case UserError::Kind::type: return type_error;
    case UserError::Kind::value: return value_error;
    case UserError::Kind::index: return index_error;
  }
  return runtime_error;
}

}  // namespace

void add_exceptions(py::module_& module) {
  runtime_error =
      add(module, "Error", "Something was asked of braze that it cannot do; the text says what to do instead.",
          PyExc_RuntimeError, nullptr);
  type_error = add(module, "ArgumentTypeError", "An argument of the wrong number, type or dtype.", runtime_error,
                   PyExc_TypeError);
  value_error = add(module, "ArgumentValueError", "An argument of the wrong shape, layout, device or value.",
                    runtime_error, PyExc_ValueError);
  index_error = add(module, "OutOfRangeError", "An index read from a tensor is out of range.", runtime_error,
                    PyExc_IndexError);
  internal_error = add(module, "InternalError", "A defect of braze.", PyExc_RuntimeError, nullptr);
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const UserError& e) {
      PyErr_SetString(type_of(e.kind), e.what());
    } catch (const InternalError& e) {
      PyErr_SetString(internal_error, e.what());
    } catch (const py::builtin_exception&) {
      throw;  // pybind11's own translator knows these.
    } catch (...) {
      torch::translate_exception_to_python(std::current_exception());
    }
  });
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const UserError& e) {
    PyErr_SetString(type_of(e.kind), e.what());
  } catch (const InternalError& e) {
    PyErr_SetString(internal_error, e.what());
  } catch (const py::builtin_exception& e) {
    e.set_error();
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
}

void throw_python_error() {
  if (PyErr_Occurred()) throw py::error_already_set();
  throw InternalError("a Python call failed without an exception");
}

}  // namespace braze::python
