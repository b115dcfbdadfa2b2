// python/interpreter/watch/watcher.h: watches a run of a Python function and collects what its outcome depends on.
//
// Before an instruction runs, the watcher decides whether it understands all that the instruction can read and
// change: what it reads from outside is learnt with a guard, what it changes must have been made by the run.
// Anything else abandons the run, with the reason. Tensor operators are understood by whoever traces them; they are
// just calls of C functions here. What an instruction looks at is said in looks.h, by the domains of watch.h.
#pragma once

#include "python/interpreter/observer.h"
#include "python/interpreter/watch/root_frame.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

class Watcher final : public Observer {
 public:
  Watcher(guards::GuardSet& guards, TensorWorld& tensors) : watch_(guards, tensors, abandoned_) {}

  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  Values& values() { return watch_.run.values; }
  /// The run leaves a generator in the middle of what may be a `try` or `with`.
  bool leaves_generator() const { return watch_.generators.leaves_generator(); }
  /// How many frames the run was deep.
  size_t deepest() const { return deepest_; }
  /// The run was abandoned for what a native run will have done the next time.
  bool is_for_later() const { return watch_.run.is_for_later; }
  /// Why the run was abandoned, and where.
  const Place& place() const { return watch_.run.place; }

  /// Before the function under the Scope is called; `callable` and the arguments have been learnt. False:
  /// abandoned.
  bool begin(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  /// Before the rest of a frame runs, the one that `root` describes. When the frame comes to an instruction that is
  /// not understood, or to the one that is asked for, the run ends there.
  void begin(RootFrame& root);

  bool entered(Frame* frame) override;
  void left(Frame* frame) override;
  bool before(Activation& a, int opcode, int arg) override;
  bool after(Activation& a, int opcode, int arg, Step step) override;
  bool handing_over(Handover reason) override;

 private:
  Activity& activity() { return watch_.run.activity(); }
  std::optional<ir::Size> length_given(PyObject* returned);
  bool gives(Activation& a, int opcode);
  bool enter_handler(Frame* frame);
  bool learn_special_method(Frame* frame);
  bool learn_torch_function(Frame* frame);
  void learn_unbound(Activation& a);

  Watch watch_;
  size_t deepest_ = 1;  ///< How many frames there were at once.
};

}  // namespace braze::interpreter
