// python/imported.h: modules for code that uses pybind11.
#pragma once

#include <pybind11/pybind11.h>

#include "python/guards/imports.h"

namespace braze::python {

/// In place of py::module_::import(), which needs builtins with `__import__` (guards/imports.h).
inline pybind11::module_ imported(const char* name) {
  guards::Ref module = guards::import_module(name);
  if (!module) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::module_>(module.release());
}

}  // namespace braze::python
