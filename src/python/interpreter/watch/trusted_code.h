// python/interpreter/watch/trusted_code.h: Python code of PyTorch's that is trusted, around code that is not.
//
// torch.func and torch.utils._pytree take containers apart, wrap tensors and call what the user gave them. What
// they read beside their arguments are tables of PyTorch's own. So their frames run unwatched, on arguments that
// are guarded all through; functions that they call and that are not theirs are watched like others.
#pragma once

#include <unordered_set>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Python code of PyTorch's that runs unwatched.
class TrustedCode final : Domain {
 public:
  using Domain::Domain;

  enum class Way : uint8_t { unwatched, watched, unknown };

  /// Calls a function of those modules. False, and no abandonment, if it is none, or is given what cannot be
  /// guarded all through: then it is watched like others.
  bool call_trusted(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  /// What that code gives to others, or gives back, and nobody knows, it has made.
  void keep_fresh(PyObject* value);
  /// What that code enters: more of it, or what it was given to call.
  Way way_from_trusted(Frame* frame);
  /// What that code gives to the frame that it enters.
  void keep_arguments(Frame* frame);
  /// Before what that code was given to call.
  bool entered_from_trusted(Frame* frame);

 private:
  void keep_fresh(PyObject* value, std::unordered_set<PyObject*>& seen);
  static bool is_trusted_code(const Frame* frame);
  bool learn_constructor(Frame* frame);
  bool opens_node(PyObject* value);
  bool open_closure(PyObject* function);
  bool opens_for_trusted(PyObject* value);
};

}  // namespace braze::interpreter
