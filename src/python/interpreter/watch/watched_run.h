// python/interpreter/watch/watched_run.h: the state of a watched run, which all domains share.
#pragma once

#include <initializer_list>
#include <vector>

#include "python/interpreter/observer.h"
#include "python/interpreter/watch/activity.h"
#include "python/interpreter/watch/place.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

class RootFrame;

/// Of a tensor or a class: operators on such tensors are calls of a `__torch_dispatch__` in Python.
bool dispatches_by_python(const TensorWorld& tensors, PyObject* value);

struct WatchedRun {
  WatchedRun(guards::GuardSet& guards, TensorWorld& tensors, bool& abandoned)
      : values(guards, tensors), abandoned(abandoned) {}

  /// The run is given up before the running instruction takes effect. Always false, as what answers for an
  /// instruction is then.
  bool abandon(BreakReason why, PyObject* subject = nullptr);
  bool allow(Entry entry) {
    activity().entry = entry;
    return true;
  }
  bool allow_made_result(Entry entry = Entry::none) {
    activity().entry = entry;
    activity().makes_result = true;
    return true;
  }
  /// The instruction's C code looks into what it is given, by functions and generators too.
  bool looks() {
    activity().looks = true;
    return true;
  }
  /// All that C code may read of what it is given is guarded.
  bool operand(PyObject* value, BreakReason why);
  bool operands(std::initializer_list<PyObject*> values, BreakReason why);
  bool absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable);
  /// The run lets go of what a path led to before it: nobody may notice, now or on later calls.
  bool lets_go(PyObject* value, const guards::Source* source, bool contents = false);
  /// Entry `key` of a dict that existed before is overwritten or deleted.
  bool lets_go_of_entry(PyObject* dict, PyObject* key);

  /// Of the frame that runs.
  Activity& activity() { return activities.back(); }

  Values values;
  std::vector<Activity> activities;  ///< One a frame.
  bool& abandoned;
  Place place;                        ///< Where and why the run was abandoned.
  bool is_for_later = false;          ///< It was abandoned for what a native run will have done the next time.
  bool looks_lazily = false;          ///< There is an iterator that looks into its items.
  bool hands_to_c = false;            ///< What Python functions give to C code, that may give to C functions.
  PyObject** callee = nullptr;        ///< Where the stack holds what the running instruction calls, if it does.
  PyObject* keyword_names = nullptr;  ///< Of the call that is looked at; null if there are none.
  /// How many frames there were when one asked whether a mode is entered, as PyTorch's Python functions do: with a
  /// default device, which is a mode, PyTorch has it run without. 0: none of those that are entered asked.
  size_t without_default_device = 0;
  RootFrame* root = nullptr;  ///< Null: the run is that of a call.
};

}  // namespace braze::interpreter
