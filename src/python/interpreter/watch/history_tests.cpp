// python/interpreter/watch/history_tests.cpp
#include "python/interpreter/watch/history_tests.h"

#include <opcode.h>

#include "python/interpreter/activation.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// What the running instruction leaves on the stack, for the object on top, is tested by what follows, and gone.
bool is_only_tested(const Activation& a) {
  const Fetched then = fetch(fetch(a.current).next);
  if (then.opcode == LOAD_CONST) return a.constant(then.arg) == Py_None && fetch(then.next).opcode == IS_OP;
  if (then.opcode == IS_OP) return a.top[-2] == Py_None;
  return jumps_if_none(then.opcode) || then.opcode == UNARY_NOT || jumps_if(then.opcode);
}

}  // namespace

bool tests_history(Watch& watch, const Activation& a, PyObject* object, PyObject* name) {
  Values& values = watch.run.values;
  TensorWorld& tensors = values.tensors();
  if (!PyUnicode_Check(name) || text_of(name) != "grad_fn" || !tensors.is_tensor(object)) return false;
  if (!values.is_known(object) || values.source_of(object) || !is_only_tested(a)) return false;
  PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
  const Ref leaf = Ref::steal(PyUnicode_InternFromString("is_leaf"));
  if (!found || !Py_IS_TYPE(found, &PyGetSetDescr_Type) || !leaf || tensors.modes().are_calls_handled() ||
      !tensors.may_read_without_grad(object, leaf.get())) {
    PyErr_Clear();
    return false;
  }
  const Ref is_leaf = Ref::steal(PyObject_GenericGetAttr(object, leaf.get()));
  if (is_leaf.get() != Py_False) {
    PyErr_Clear();
    return false;
  }
  values.guards().class_entries(type_source(values, object), Py_TYPE(object), {&name, 1});
  watch.run.activity().answer = Py_True;  // For whatever is not None, and true.
  return watch.run.allow_made_result();
}

}  // namespace braze::interpreter
