// python/interpreter/watch/tensor_hooks.h: hooks on gradients, set by a run on tensors that were there before or
// that it computes.
//
// A hook is for a backward that comes after the run, so it may as well be set when the program has run: on the
// tensor of the call, or on the result that the computed one has become, to whose history it belongs. The code that
// stands in for torch.Tensor.register_hook asks for the dict of a tensor's hooks (`hooks_of`) and is given one of
// the run's own, empty. A replay takes the tensor's, and adds what the run's dict holds in the end
// (compile/rebuild_effects.cpp).
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// What hooks_of() is asked for.
enum class GradientHooks : uint8_t {
  backward,         ///< The dict of register_hook().
  post_accumulate,  ///< Of register_post_accumulate_grad_hook().
  retained,         ///< No dict: the tensor is to keep its gradient.
};

/// `hooks_of(tensor, kind, mark)`, borrowed: what a run asks, which answers itself. Natively it does nothing. The
/// mark is the caller's: what must hold of the tensor when the run ends.
PyObject* hooks_function();
/// `take_hooks(tensor, kind)`, borrowed, for replays: gives the dict, made and set if there is none, or does what
/// else `kind` says and gives None.
PyObject* take_hooks_function();

/// An effect that is a call of that.
struct HookEffect {
  PyObject *tensor, *kind, *mark;
  PyObject* dict;  ///< The run's own; None where there is none.
  explicit HookEffect(const Effect& effect)
      : tensor(effect.key.get()),
        kind(effect.value.get()),
        mark(effect.rest.at(0).get()),
        dict(effect.rest.at(1).get()) {}
  static bool is_one(const Effect& effect) { return effect.target.get() == take_hooks_function(); }
};

class TensorHooks final : Domain {
 public:
  using Domain::Domain;

  static bool is_asked(PyObject* function) { return function == hooks_function(); }
  bool ask(PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
