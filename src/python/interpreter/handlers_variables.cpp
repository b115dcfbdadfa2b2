// python/interpreter/handlers_variables.cpp: locals, globals, names of class and module bodies, closure cells.
#include "python/interpreter/handlers.h"
#include "python/interpreter/raised.h"

namespace braze::interpreter {

void raise_name_error(PyObject* exception, const char* format, PyObject* name) {
  PyErr_Format(exception, format, name);
  if (exception != PyExc_NameError) return;
  // "Did you mean" reads the attribute `name`.
  Ref raised = take_raised();
  if (PyErr_GivenExceptionMatches(raised.get(), PyExc_NameError)) {
    auto* error = reinterpret_cast<PyNameErrorObject*>(raised.get());
    if (!error->name) error->name = Py_NewRef(name);
  }
  set_raised(std::move(raised));
}

void raise_unbound(Activation& a, int index) {
  if (PyErr_Occurred()) return;
  PyCodeObject* code = a.code();
  PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, index);
  if (index < code->co_nlocalsplus - code->co_nfreevars)
    raise_name_error(PyExc_UnboundLocalError,
                     "cannot access local variable '%U' where it is not associated with a value", name);
  else
    raise_name_error(PyExc_NameError,
                     "cannot access free variable '%U' where it is not associated with a value in enclosing scope",
                     name);
}

namespace {

constexpr const char* not_defined = "name '%U' is not defined";

/// A mapping's item as a new reference; null without an exception if the key is missing.
Ref find_in(PyObject* mapping, PyObject* key) {
  if (PyDict_CheckExact(mapping)) return Ref::borrow(PyDict_GetItemWithError(mapping, key));
  Ref item = Ref::steal(PyObject_GetItem(mapping, key));
  if (!item && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return item;
}

Ref find_global(Activation& a, PyObject* name) {
  Ref value = find_in(a.frame->f_globals, name);
  if (!value && !PyErr_Occurred()) value = find_in(a.frame->f_builtins, name);
  if (!value && !PyErr_Occurred()) raise_name_error(PyExc_NameError, not_defined, name);
  return value;
}

Step no_locals(const char* doing, PyObject* name) {
  PyErr_Format(PyExc_SystemError, "no locals %s %R", doing, name);
  return Step::error;
}

/// After a failed deletion: a missing key is a missing name.
Step missing_name(PyObject* name) {
  if (PyErr_ExceptionMatches(PyExc_KeyError)) raise_name_error(PyExc_NameError, not_defined, name);
  return Step::error;
}

}  // namespace

Step load_fast(Activation& a, int arg) {
  PyObject* value = a.local(arg);
  if (!value) {
    raise_unbound(a, arg);
    return Step::error;
  }
  a.push_borrowed(value);
  return Step::next;
}

// A comprehension keeps a variable of its own in a local of the function around it, whose value (or null) waits on
// the stack until STORE_FAST puts it back.
Step load_fast_and_clear(Activation& a, int arg) {
  a.push(Ref::steal(std::exchange(a.local(arg), nullptr)));
  return Step::next;
}

Step store_fast(Activation& a, int arg) {
  Value value = a.pop();
  const Ref old = Ref::steal(a.local(arg));
  a.local(arg) = value.object.release();
  return Step::next;
}

Step delete_fast(Activation& a, int arg) {
  const Ref old = Ref::steal(a.local(arg));
  a.local(arg) = nullptr;
  if (old) return Step::next;
  raise_unbound(a, arg);
  return Step::error;
}

// The argument's low bit asks for a null below the value: a call follows.
Step load_global(Activation& a, int arg) {
  Ref value = find_global(a, a.name(arg >> 1));
  if (!value) return Step::error;
  if (arg & 1) a.push(Ref());
  a.push(std::move(value));
  return Step::next;
}

Step store_global(Activation& a, int arg) {
  const Value value = a.pop();
  return Activation::check(PyDict_SetItem(a.frame->f_globals, a.name(arg), value.get()));
}

Step delete_global(Activation& a, int arg) {
  if (PyDict_DelItem(a.frame->f_globals, a.name(arg)) == 0) return Step::next;
  return missing_name(a.name(arg));
}

Step load_name(Activation& a, int arg) {
  PyObject* name = a.name(arg);
  if (!a.frame->f_locals) return no_locals("when loading", name);
  Ref value = find_in(a.frame->f_locals, name);
  if (!value && !PyErr_Occurred()) value = find_global(a, name);
  return a.push_result(value.release());
}

Step load_locals(Activation& a, int) {
  if (a.frame->f_locals) {
    a.push_borrowed(a.frame->f_locals);
    return Step::next;
  }
  PyErr_SetString(PyExc_SystemError, "no locals found");
  return Step::error;
}

// In functions of a class body's scope (PEP 695): the class's namespace lies on the stack.
Step load_from_dict_or_globals(Activation& a, int arg) {
  const Value names = a.pop();
  Ref value = find_in(names.get(), a.name(arg));
  if (!value && !PyErr_Occurred()) value = find_global(a, a.name(arg));
  return a.push_result(value.release());
}

Step store_name(Activation& a, int arg) {
  const Value value = a.pop();
  PyObject* name = a.name(arg);
  if (!a.frame->f_locals) return no_locals("found when storing", name);
  if (PyDict_CheckExact(a.frame->f_locals))
    return Activation::check(PyDict_SetItem(a.frame->f_locals, name, value.get()));
  return Activation::check(PyObject_SetItem(a.frame->f_locals, name, value.get()));
}

Step delete_name(Activation& a, int arg) {
  PyObject* name = a.name(arg);
  if (!a.frame->f_locals) return no_locals("when deleting", name);
  if (PyObject_DelItem(a.frame->f_locals, name) == 0) return Step::next;
  return missing_name(name);
}

Step load_deref(Activation& a, int arg) {
  PyObject* value = PyCell_GET(a.local(arg));
  if (!value) {
    raise_unbound(a, arg);
    return Step::error;
  }
  a.push_borrowed(value);
  return Step::next;
}

Step store_deref(Activation& a, int arg) {
  Value value = a.pop();
  PyObject* cell = a.local(arg);
  const Ref old = Ref::steal(PyCell_GET(cell));
  PyCell_SET(cell, value.object.release());
  return Step::next;
}

Step delete_deref(Activation& a, int arg) {
  PyObject* cell = a.local(arg);
  const Ref old = Ref::steal(PyCell_GET(cell));
  PyCell_SET(cell, nullptr);
  if (old) return Step::next;
  raise_unbound(a, arg);
  return Step::error;
}

// In a class body: the namespace of the class first, then the enclosing function's cell.
Step load_classderef(Activation& a, int arg) {
  PyObject* name = PyTuple_GET_ITEM(a.code()->co_localsplusnames, arg);
  Ref value = find_in(a.frame->f_locals, name);
  if (!value && !PyErr_Occurred()) value = Ref::borrow(PyCell_GET(a.local(arg)));
  if (!value) raise_unbound(a, arg);
  return a.push_result(value.release());
}

// The same with the namespace on the stack.
Step load_from_dict_or_deref(Activation& a, int arg) {
  const Value names = a.pop();
  Ref value = find_in(names.get(), PyTuple_GET_ITEM(a.code()->co_localsplusnames, arg));
  if (!value && !PyErr_Occurred()) value = Ref::borrow(PyCell_GET(a.local(arg)));
  if (!value) raise_unbound(a, arg);
  return a.push_result(value.release());
}

Step load_closure(Activation& a, int arg) {
  return load_fast(a, arg);
}

Step make_cell(Activation& a, int arg) {
  PyObject* cell = PyCell_New(a.local(arg));
  if (!cell) return Step::error;
  const Ref initial = Ref::steal(a.local(arg));
  a.local(arg) = cell;
  return Step::next;
}

Step copy_free_vars(Activation& a, int arg) {
  PyObject* closure = function_of(a.frame)->func_closure;
  const int first = a.code()->co_nlocalsplus - arg;
  for (int i = 0; i < arg; ++i) a.local(first + i) = Py_NewRef(PyTuple_GET_ITEM(closure, i));
  return Step::next;
}

}  // namespace braze::interpreter
