// python/program_object.h: braze.Program: a compiled program as a Python callable.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "python/tree.h"
#include "runtime/program.h"
#include "runtime/sized_program.h"

namespace braze::python {

/// One parameter of the traced function as the example call filled it.
struct Slot {
  std::string label;    ///< "argument 1 (`mask`)".
  py::object name;      ///< Interned str; null if it can only be given by position.
  int position = -1;    ///< -1: by keyword only.
  py::object fallback;  ///< The parameter's default; null if it must be given.
  Tree tree;
};

/// What a call needs, worked out when tracing.
struct CallPlan {
  std::string name;                           ///< Of the traced function or module.
  std::shared_ptr<runtime::Program> program;  ///< Of the examples.
  /// What finds the program of a call's sizes, where some may vary; else null.
  std::shared_ptr<const runtime::SizedProgram> sized;
  std::vector<Slot> slots;          ///< Those with a position first, in order.
  std::vector<std::string> labels;  ///< Of each argument tensor, for messages.
  Tree result;
};

/// Makes the type and adds it to the module as "Program".
void add_program_type(py::module_& module);

py::object make_program_object(CallPlan plan);

/// A program that is a part of something else, to be looked at: calling it is an error.
py::object make_program_view(std::string name, std::shared_ptr<runtime::Program> program);

}  // namespace braze::python
