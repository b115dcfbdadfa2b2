// python/interpreter/watch/looks_312.cpp: instructions that came with 3.12.
#include "python/guards/deque.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/looks.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace looks {

// The argument's low bit says how the value is used.
bool attribute_or_method(Watch& watch, Activation& a, int arg) {
  return attribute(watch, a, arg >> 1);
}

// The stack: super, class, self. The instruction makes the super object, and drops it.
bool super_attribute(Watch& watch, Activation& a, int arg) {
  PyObject *callable = a.peek(3), *type = a.peek(2), *self = a.peek(1);
  if (callable != reinterpret_cast<PyObject*>(&PySuper_Type))
    return watch.run.abandon("super() that is replaced", callable);
  if (!PyType_Check(type) || !watch.run.values.is_known(type) || !watch.run.values.is_known(self))
    return watch.run.abandon("super() with an object of unknown origin", self);
  auto* this_class = reinterpret_cast<PyTypeObject*>(type);
  const bool of_class = PyType_Check(self) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self), this_class);
  PyTypeObject* self_class = of_class ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
  if (!PyType_IsSubtype(self_class, this_class))
    return watch.run.abandon("super() with an object of another class", self);
  return watch.attributes.super_lookup(type, reinterpret_cast<PyObject*>(self_class), a.name(arg >> 2));
}

// The operator is in the upper bits of the argument.
bool compares_shifted(Watch& watch, Activation& a, int arg) {
  return compares(watch, a, arg >> 4);
}

// The stack: container, start, stop.
bool slice(Watch& watch, Activation& a, int) {
  if (!watch.run.operand(a.peek(1), "an index of unknown origin") ||
      !watch.run.operand(a.peek(2), "an index of unknown origin"))
    return false;
  PyObject* container = a.peek(3);
  if (is_exact_dict(container)) return watch.run.abandon("a slice of a dict", container);
  if (!watch.containers.subscript(container, Py_None))
    return false;  // Its parts are known, and that is all that matters of the key.
  watch.run.activity().passes_slice = true;
  return true;
}

// The stack: value, container, start, stop.
bool stores_slice(Watch& watch, Activation& a, int) {
  PyObject *container = a.peek(3), *value = a.peek(4);
  if (!watch.run.operand(a.peek(1), "an index of unknown origin") ||
      !watch.run.operand(a.peek(2), "an index of unknown origin"))
    return false;
  if (PyList_Check(container) && watch.run.values.is_known(container) &&
      watch.classes.acts_as_builtin(container, "__setitem__"))
    return watch.containers.iterate(value) && watch.containers.change_list(container);
  if (PyDict_Check(container) || guards::is_deque(container))
    return watch.run.abandon("a slice is stored into", container);
  if (!watch.containers.store_item(container, Py_None, value)) return false;  // As in slice().
  watch.run.activity().passes_slice = true;
  return true;
}

bool returns_constant(Watch& watch, Activation& a, int arg) {
  watch.run.values.make_constant(a.constant(arg));
  return true;
}

bool intrinsic_1(Watch& watch, Activation& a, int arg) {
  switch (arg) {
    case INTRINSIC_STOPITERATION_ERROR: return watch.run.allow_made_result();
    case INTRINSIC_UNARY_POSITIVE: return operand(watch, a, arg);
    case INTRINSIC_LIST_TO_TUPLE: return tuple_of_list(watch, a, arg);
    default: return unknown(watch, a, arg);
  }
}

}  // namespace looks

}  // namespace braze::interpreter
