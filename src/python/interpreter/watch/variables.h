// python/interpreter/watch/variables.h: globals, closure cells and parameters.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Globals, closure cells and parameters.
class Variables final : Domain {
 public:
  using Domain::Domain;

  bool load_global(Activation& a, int arg);
  /// `__build_class__`, which a class statement calls.
  bool load_class_builder(Activation& a);
  bool store_global(Activation& a, int arg);
  bool load_cell(PyObject* cell);
  bool store_cell(PyObject* cell, PyObject* value);
  bool copy_free_variables(Activation& a);
  /// super() without arguments reads the cell `__class__` of the frame that calls it.
  bool load_class_cell();
  /// What a call put into the frame itself: the tuple of *args, the dict of **kwargs, defaults.
  bool learn_parameters(Frame* frame);
};

}  // namespace braze::interpreter
