// python/interpreter/watch/other_threads.cpp
#include "python/interpreter/watch/other_threads.h"

#include <opcode.h>

#include <algorithm>
#include <unordered_set>

#include "python/guards/scalar.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/raised.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/running_threads.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// What C code can get at from an object without Python code.
class Reach {
 public:
  explicit Reach(Values& values) : values_(values) {}

  /// \param within  it is looked into, too.
  void add(PyObject* object, bool within = true) {
    if (!object || guards::is_scalar(object)) return;
    if (values_.tensors().is_tensor(object)) {
      has_tensor_ = true;
      return;
    }
    if (!seen_.insert(object).second) return;
    has_changes_ |= values_.effects().changed(object);
    has_operator_ |= is_operator(object);
    if (!within || !is_followed(object)) return;
    const visitproc take = [](PyObject* referent, void* reach) {
      static_cast<Reach*>(reach)->add(referent);
      return 0;
    };
    if (auto* traverse = Py_TYPE(object)->tp_traverse) traverse(object, take, this);
  }

  /// A list, dict or set that the run has changed.
  bool has_changes() const { return has_changes_; }
  bool has_tensor() const { return has_tensor_; }
  /// A function of torch's that may be called.
  bool has_operator() const { return has_operator_; }

 private:
  bool is_operator(PyObject* object) const {
    const TensorWorld& tensors = values_.tensors();
    if (Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyWrapperDescr_Type))
      return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(tensors.tensor_type()), PyDescr_TYPE(object)) &&
             PyDescr_TYPE(object) != &PyBaseObject_Type;
    return PyCallable_Check(object) && (tensors.may_call(object) || tensors.is_operator(object) ||
                                        tensors.promise_about(object) != Promise::none);
  }

  /// Containers and what iterates over them, or holds functions and arguments. What instances of other classes hold
  /// is for their methods, which are watched, and so is what Python functions and generators do.
  bool is_followed(PyObject* object) const {
    if (storage_type(object)) return true;
    if (PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object) || PyGen_CheckExact(object) ||
        PyCell_Check(object) || PyCode_Check(object))
      return false;
    return is_exact_builtin(Py_TYPE(object));
  }

  Values& values_;
  std::unordered_set<PyObject*> seen_;
  bool has_changes_ = false, has_tensor_ = false, has_operator_ = false;
};

}  // namespace

namespace {

/// Keys are hashed and compared; what entries hold is not looked into.
bool looks_up(int opcode, PyObject* container) {
  const bool is_look_up =
      opcode == BINARY_SUBSCR || opcode == STORE_SUBSCR || opcode == DELETE_SUBSCR || opcode == CONTAINS_OP;
  return is_look_up && (PyDict_Check(container) || PyAnySet_Check(container));
}

}  // namespace

bool OtherThreads::hide_effects(Activation& a, int opcode, int arg) {
  Activity& activity = this->activity();
  const bool enters_only = activity.is_direct || activity.entry == Entry::none;
  if (enters_only || !values_.effects().is_live() || !has_other_threads()) return true;
  Reach reach(values_);
  const auto depth = static_cast<int>(a.top - a.stack_base());
  const int used = operands_used(opcode, arg);
  for (int i = 1; i <= (used < 0 ? depth : std::min(used, depth)); ++i)
    if (PyObject* operand = a.peek(i)) reach.add(operand, !looks_up(opcode, operand));
  activity.holds_changes = reach.has_changes() && !activity.constructs;  // Which only passes arguments on.
  activity.shares = reach.has_operator() || (activity.entry == Entry::tensor && reach.has_tensor()) ||
                    activity.entry == Entry::around || (activity.entry == Entry::trusted && !activity.is_quiet);
  if (!activity.shares) return true;
  for (const Activity& each : run_.activities)
    if (each.holds_changes)
      return abandon("beside other threads, C code that computes is given what the function has changed");
  return hide_effects();
}

bool OtherThreads::hide_effects() {
  // Taking entries back that were moved moves them again, under whatever goes through them.
  for (PyObject* dict : values_.effects().rearranged_dicts())
    if (values_.is_iterated(dict))
      return abandon("beside other threads, C code computes after entries of a dict were removed or moved", dict);
  const RaisedAside aside;
  values_.effects().hide();
  return true;
}

bool OtherThreads::show_effects() {
  const RaisedAside aside;
  if (values_.effects().show()) return true;
  run_.is_for_later = true;
  return abandon("another thread changes what the function changes");
}

}  // namespace braze::interpreter
