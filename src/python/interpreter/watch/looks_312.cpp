// python/interpreter/watch/looks_312.cpp: instructions that came with 3.12.
#include "python/guards/scalar.h"
#include "python/interpreter/watch/looks.h"

namespace braze::interpreter {

// The argument's low bit says how the value is used.
bool Watcher::Looks::attribute_or_method(Watcher& w, Activation& a, int arg) {
  return attribute(w, a, arg >> 1);
}

// The stack: super, class, self. The instruction makes the super object, and drops it.
bool Watcher::Looks::super_attribute(Watcher& w, Activation& a, int arg) {
  PyObject *callable = a.peek(3), *type = a.peek(2), *self = a.peek(1);
  if (callable != reinterpret_cast<PyObject*>(&PySuper_Type))
    return w.abandon("super() that is replaced", callable);
  if (!PyType_Check(type) || !w.values_.is_known(type) || !w.values_.is_known(self))
    return w.abandon("super() with an object of unknown origin", self);
  auto* this_class = reinterpret_cast<PyTypeObject*>(type);
  const bool of_class = PyType_Check(self) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self), this_class);
  PyTypeObject* self_class = of_class ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
  if (!PyType_IsSubtype(self_class, this_class)) return w.abandon("super() with an object of another class", self);
  return w.super_lookup(type, reinterpret_cast<PyObject*>(self_class), a.name(arg >> 2));
}

// The operator is in the upper bits of the argument.
bool Watcher::Looks::compares_shifted(Watcher& w, Activation& a, int arg) {
  return compares(w, a, arg >> 4);
}

// The stack: container, start, stop.
bool Watcher::Looks::slice(Watcher& w, Activation& a, int) {
  if (!w.operand(a.peek(1), "an index of unknown origin") || !w.operand(a.peek(2), "an index of unknown origin"))
    return false;
  PyObject* container = a.peek(3);
  if (is_exact_dict(container)) return w.abandon("a slice of a dict", container);
  if (!w.subscript(container, Py_None))
    return false;  // Its parts are known, and that is all that matters of the key.
  w.activities_.back().passes_slice = true;
  return true;
}

// The stack: value, container, start, stop.
bool Watcher::Looks::stores_slice(Watcher& w, Activation& a, int) {
  PyObject *container = a.peek(3), *value = a.peek(4);
  if (!w.values_.tensors().is_tensor(container)) return w.abandon("a slice is stored into", container);
  return w.operand(a.peek(1), "an index of unknown origin") && w.operand(a.peek(2), "an index of unknown origin") &&
         w.store_item(container, Py_None, value);
}

bool Watcher::Looks::returns_constant(Watcher& w, Activation& a, int arg) {
  w.values_.make_constant(a.constant(arg));
  return true;
}

bool Watcher::Looks::intrinsic_1(Watcher& w, Activation& a, int arg) {
  switch (arg) {
    case INTRINSIC_STOPITERATION_ERROR: return w.allow_made_result();
    case INTRINSIC_UNARY_POSITIVE: return operand(w, a, arg);
    case INTRINSIC_LIST_TO_TUPLE: return makes(w, a, arg);
    default: return unknown(w, a, arg);
  }
}

}  // namespace braze::interpreter
