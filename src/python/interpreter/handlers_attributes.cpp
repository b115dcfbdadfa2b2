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

}  // namespace braze::interpreter
