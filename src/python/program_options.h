// python/program_options.h: the settings of generated code, from Python's words to C++.
#pragma once

#include <pybind11/pybind11.h>

#include "runtime/program.h"

namespace braze::python {

/// Names are those of `braze.config` ("fusion", "max_autotune", ...); what is not named keeps its default.
/// Throws UserError on another name, py::cast_error on a value of another type.
runtime::ProgramOptions program_options(const pybind11::dict& settings);

}  // namespace braze::python
