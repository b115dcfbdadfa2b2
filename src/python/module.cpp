// python/module.cpp: the module braze._C.
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>

#include "capture/own_calls.h"
#include "capture/trace.h"
#include "python/errors.h"
#include "python/guards/bindings.h"
#include "python/guards/torch_values.h"
#ifdef BRAZE_INTERPRETER
#include "python/compile/compiled_function.h"
#include "python/compile/default_device.h"
#include "python/compile/events.h"
#include "python/compile/promises.h"
#include "python/compile/stance.h"
#include "python/compile/stand_ins.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/functions.h"
#include "python/interpreter/watch/break_reasons.h"
#endif
#include "python/cuda_graphs.h"
#include "python/program_object.h"
#include "python/trace_function.h"
#include "python/tree.h"
#include "python/user_line.h"
#include "runtime/packed_weights.h"
#include "runtime/profiler_range.h"
#include "runtime/program.h"
#include "support/switches.h"

PYBIND11_MODULE(_C, m) {
  namespace py = pybind11;
  namespace braze_python = braze::python;
  m.doc() = "The compiled part of braze.";
  m.attr("torch_version") = BRAZE_TORCH_VERSION;
  braze_python::add_exceptions(m);
  braze_python::add_program_type(m);
  braze_python::install_trees();
  braze::runtime::install_evaluate_hook();
  braze::runtime::install_phase_ranges();
  braze_python::install_cuda_graphs();
  braze_python::install_placeholders();
  braze::capture::install();  // once a process, so that no first call pays for it
  m.def("install_source_hook", &braze_python::install_source_hook, py::arg("torch_folder"), py::arg("braze_folder"),
        "Files below these folders are not the user's.");
  m.def("trace", &braze_python::trace, "Traces and compiles one call; see python/trace_function.h.");
  m.def("forget_packed_weights", [] { braze::runtime::forget_packed_weights(); }, "See runtime/packed_weights.h.");
  m.def("forget_packed_weights", &braze_python::forget_packed_weights, "The same for copies of some tensors.");
  m.def("packed_weight_bytes", &braze::runtime::packed_weight_bytes, "See runtime/packed_weights.h.");
  m.def("materialize", &braze_python::materialize, "The value of a traced tensor.");
  m.def("number_of", &braze_python::number_of, "A size of the trace as a number beside tensors.");
  m.def("untraced", &braze_python::untraced, "Calls a function so that its operators are run, not recorded.");
  m.def(
      "is_tracer",
      [](py::handle object) {
        return braze::guards::is_tensor(object.ptr()) &&
               braze::capture::is_tracer(THPVariable_Unpack(object.ptr()));
      },
      "Whether a value is a tensor of a trace.");
  py::list switches;
  for (const braze::switches::Row& row : braze::switches::rows())
    switches.append(py::make_tuple(row.name, row.values, row.meaning));
  m.attr("switches") = switches;
  py::module_ guards = m.def_submodule("_guards", "Sources, guards and recipes, for tests and benchmarks.");
  braze::guards::add_bindings(guards);
#ifdef BRAZE_INTERPRETER
  if (braze::interpreter::add_functions(m.ptr()) < 0) throw py::error_already_set();
  braze::capture::set_own_call_hook(
      []() -> std::shared_ptr<void> { return std::make_shared<braze::interpreter::Pause>(); });
  braze_python::add_compiled_function(m);
  braze_python::add_default_device(m);
  braze_python::add_events(m);
  braze_python::add_stance(m);
  braze_python::add_promises(m);
  braze_python::add_stand_ins(m);
  py::dict reasons;
  for (const braze::interpreter::BreakRow& row : braze::interpreter::break_rows)
    reasons[py::str(row.id.data(), row.id.size())] = py::make_tuple(row.text, row.remedy);
  m.attr("break_reasons") = reasons;
#endif
}
