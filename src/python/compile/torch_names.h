// python/compile/torch_names.h: what of torch a watched run may use, by name.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

/// The C functions, methods and attributes of torch that a watched run may use. Looked up once a process.
class TorchNames {
 public:
  /// Needs torch to be imported. Throws what Python raises.
  TorchNames();

  /// By its name: an operator, or a function likewise, that computes on its arguments alone.
  bool is_understood(const std::string& name) const;
  /// A method that makes a tensor another view of its memory, in place: `unsqueeze_`.
  bool moves_view(std::string_view method) const;
  /// An attribute of tensors that the tensor guards pin down, or that dispatches as an operator.
  bool is_readable(std::string_view attribute) const;
  /// One that tells how a tensor came to be, and tells nothing of a tensor without gradients.
  bool is_of_history(std::string_view attribute) const;

  std::unordered_set<PyObject*> functions;  ///< Held for good by torch's modules.
  std::unordered_set<std::string> methods;
  std::unordered_set<std::string> operators;  ///< The names that aten has.
  PyObject* tensor_type;
  PyObject* parameter_type;
  PyObject* hook_handle_type;                            ///< torch.utils.hooks.RemovableHandle.
  PyObject* compiler_dict;                               ///< Of the module torch.compiler.
  std::unordered_set<PyObject*> lazy_types;              ///< Classes whose instances make attributes on demand.
  PyObject *operator_type, *overload_type;               ///< What torch.ops has.
  PyObject* gives_other_class;                           ///< torch.Tensor._make_subclass.
  PyObject* script_type;                                 ///< Functions of TorchScript.
  PyObject *reads_autocast_cache, *sets_autocast_cache;  ///< Functions, of the flag that enables it.
  std::unordered_set<PyObject*> of_grad_mode;            ///< Functions that ask for it, or set it.
  PyObject* asks_for_function_mode;                      ///< Whether a mode of torch functions is entered.
  /// Functions that move the stack of modes of torch functions, or tell of it.
  std::unordered_map<PyObject*, interpreter::ModeWorld::Use> of_mode_stack;
  std::unordered_set<PyObject*> ask_for_torch_function;  ///< Whether such a mode, or an argument, handles a call.
  std::unordered_set<PyObject*> unseen_by_handlers;      ///< Of what has a stand-in.
  PyObject *ends_graph, *counts_effects, *shares_array;  ///< braze's own, see stand_ins.h.
  PyObject *symbolic_int, *symbolic_float;               ///< The classes torch.SymInt and torch.SymFloat.
  PyObject* compiling_flag;                              ///< The name of what torch.compiler.is_compiling() gives.
};
const TorchNames& torch_names();

/// What an operator of torch.ops says of itself: "aten::add", or of an overload "aten::add.Tensor". Empty: it is
/// neither.
std::string_view text_of_operator(PyObject* object);
/// Its name without the overload's: "aten::add". Empty: it is no operator.
std::string operator_name(PyObject* object);

}  // namespace braze::python
