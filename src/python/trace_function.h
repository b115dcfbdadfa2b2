// python/trace_function.h: tracing a Python function: arguments in, a braze.Program out.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace braze::python {

namespace py = pybind11;

/// How a parameter was filled in the example call.
enum class Passed : int { no = 0, by_position = 1, by_keyword = 2 };

/// Traces one call of `function` and compiles it.
/// \param parameters  one tuple (label, name or None, position or -1, has default, default, Passed, value) per
/// slot;
///                    those with a position first, in order. `value` is the default where nothing was passed.
/// \param named       (name, tensor) of each parameter and buffer of the module, or an empty list.
/// \param settings    what python/program_options.h takes.
/// \param dynamic     {path of an argument: [(dim, name or "", min, max), ...]}: sizes that may vary.
/// \returns (program, list of warnings).
/// Throws what the function raises, with its traceback; UserError for what cannot be traced.
py::tuple trace(py::object function, std::string name, py::list parameters, py::iterable named, py::dict settings,
                py::dict dynamic);

/// The value of a traced tensor; any other tensor is given back as it is.
py::object materialize(py::object tensor, std::string what);

/// A torch.SymInt of the trace as a tensor without dimensions that counts as a Python number.
py::object number_of(py::object size);

/// See capture/placeholders.h.
void install_placeholders();

/// Calls a function so that its operators are run, not recorded.
py::object untraced(py::object function, py::args args, py::kwargs kwargs);

/// Copies of these weights are made anew (runtime/packed_weights.h).
void forget_packed_weights(py::iterable weights);

}  // namespace braze::python
