// python/interpreter/watch/tree_nodes.h: the classes that torch.utils._pytree takes apart, and how.
//
//   registered with functions of the user's     these are watched
//   registered dataclasses                      PyTorch's own code reads their fields and makes them anew
#pragma once

#include <Python.h>

#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

/// A function of torch.utils._pytree.
bool is_of_trees(PyObject* function);
/// Guards what is registered, which anybody may add to.
void keep_node_types(Values& values);
/// What the function, or what a registered method calls, was found as: null for what is not registered.
PyObject* learn_node_function(Values& values, PyObject* function);
/// The functions that PyTorch takes objects of the class apart with are the user's.
bool is_taken_apart_by_user(PyTypeObject* type);
/// The fields that PyTorch's code reads of objects of the class, borrowed; null if it is no registered dataclass.
PyObject* fields_of_node(PyTypeObject* type);

}  // namespace braze::interpreter
