// python/interpreter/handlers_attributes.cpp: attributes and methods.
#include "python/interpreter/handlers.h"

namespace braze::interpreter {

Step load_attr(Activation& a, int arg) {
  const Value object = a.pop();
  return a.push_result(PyObject_GetAttr(object.get(), a.name(arg)));
}

Step store_attr(Activation& a, int arg) {
  const Value object = a.pop(), value = a.pop();
  return Activation::check(PyObject_SetAttr(object.get(), a.name(arg), value.get()));
}

Step delete_attr(Activation& a, int arg) {
  const Value object = a.pop();
  return Activation::check(PyObject_SetAttr(object.get(), a.name(arg), nullptr));
}

// Pushes (function, self) for a method found on the type, which saves the bound method; else (null, attribute).
Step load_method(Activation& a, int arg) {
  Value object = a.pop();
  PyObject* found = nullptr;
  const int is_method = _PyObject_GetMethod(object.get(), a.name(arg), &found);
  if (!found) return Step::error;
  Ref attribute = Ref::steal(found);
  if (is_method) {
    a.push(std::move(attribute));
    a.push(std::move(object.object));
  } else {
    a.push(Ref());
    a.push(std::move(attribute));
  }
  return Step::next;
}

// The argument's low bit says that a call follows.
Step load_attribute_or_method(Activation& a, int arg) {
  return arg & 1 ? load_method(a, arg >> 1) : load_attr(a, arg >> 1);
}

// super().name or super(class, self).name. The stack: super, class, self. Bit 0 asks for a null below the value,
// bit 1 says that the call has arguments; without them super() looks for them in the running frame.
Step load_super_attr(Activation& a, int arg) {
  const Value self = a.pop(), type = a.pop(), callable = a.pop();
  PyObject* const arguments[] = {type.get(), self.get()};
  const Ref object = Ref::steal(PyObject_Vectorcall(callable.get(), arguments, arg & 2, nullptr));
  if (!object) return Step::error;
  Ref attribute = Ref::steal(PyObject_GetAttr(object.get(), a.name(arg >> 2)));
  if (!attribute) return Step::error;
  if (arg & 1) a.push(Ref());
  a.push(std::move(attribute));
  return Step::next;
}

}  // namespace braze::interpreter
