// python/interpreter/handlers_calls.cpp: calls and the making of functions.
#include "python/interpreter/handlers.h"
#include "python/interpreter/raised.h"

namespace braze::interpreter {

namespace {

// The stack of a call, from below: callable, self or null, arguments; or null, callable, arguments.
bool has_self(Activation& a, int arguments) {
  return a.peek(arguments + 2) != nullptr;
}

/// A bound method becomes its function and self, so that the function is called without a detour.
void open_bound_method(Activation& a, int arguments) {
  if (has_self(a, arguments) || !Py_IS_TYPE(a.peek(arguments + 1), &PyMethod_Type)) return;
  const Ref method = Ref::steal(a.peek(arguments + 1));
  a.peek(arguments + 2) = Py_NewRef(PyMethod_GET_FUNCTION(method.get()));
  a.peek(arguments + 1) = Py_NewRef(PyMethod_GET_SELF(method.get()));
}

/// The message for what `**` was given, after _PyDict_MergeEx failed.
void explain_bad_keywords(PyObject* function, PyObject* keywords) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    const Ref name = Ref::steal(_PyObject_FunctionStr(function));
    if (name)
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", name.get(),
                   Py_TYPE(keywords)->tp_name);
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return;
  const Ref keyword = take_key_error();
  if (!keyword) return;
  const Ref name = Ref::steal(_PyObject_FunctionStr(function));
  if (name)
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", name.get(), keyword.get());
}

/// The positional arguments as a tuple; null with an exception.
Ref positional_tuple(PyObject* function, Value given) {
  PyObject* arguments = given.get();
  if (PyTuple_CheckExact(arguments)) return std::move(given.object);
  if (Py_TYPE(arguments)->tp_iter || PySequence_Check(arguments)) return Ref::steal(PySequence_Tuple(arguments));
  const Ref name = Ref::steal(_PyObject_FunctionStr(function));
  if (name)
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", name.get(),
                 Py_TYPE(arguments)->tp_name);
  return {};
}

}  // namespace

Step kw_names(Activation& a, int arg) {
  a.keyword_names = a.constant(arg);
  return Step::next;
}

// In 3.11 this prepares the call; CALL does the same again, because either may run alone.
Step precall(Activation& a, int arg) {
  open_bound_method(a, arg);
  return Step::next;
}

Step call(Activation& a, int arg) {
  open_bound_method(a, arg);
  const int count = arg + has_self(a, arg);
  PyObject* names = std::exchange(a.keyword_names, nullptr);
  const size_t positional = count - (names ? PyTuple_GET_SIZE(names) : 0);
  PyObject* callable = a.peek(count + 1);
  PyObject* result =
      PyObject_Vectorcall(callable, a.top - count, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  a.drop(arg + 2);
  if (a.push_result(result) == Step::error) return Step::error;
  return service_eval_breaker(a);
}

// f(*args, **kwargs). DICT_MERGE has made an exact dict of the keywords.
Step call_function_ex(Activation& a, int arg) {
  const Value keywords = (arg & 1) ? a.pop() : Value{};
  Value given = a.pop();
  const Value function = a.pop();
  a.pop();  // The null below.
  const Ref arguments = positional_tuple(function.get(), std::move(given));
  if (!arguments) return Step::error;
  PyObject* result = PyObject_Call(function.get(), arguments.get(), keywords.get());
  if (a.push_result(result) == Step::error) return Step::error;
  return service_eval_breaker(a);
}

Step dict_merge(Activation& a, int arg) {
  const Value keywords = a.pop();
  if (_PyDict_MergeEx(a.peek(arg), keywords.get(), 2) == 0) return Step::next;
  explain_bad_keywords(a.peek(2 + arg), keywords.get());
  return Step::error;
}

// Bits of the argument say which parts lie on the stack, in this order from the top.
Step make_function(Activation& a, int arg) {
  enum : int { defaults = 1, keyword_defaults = 2, annotations = 4, closure = 8 };
  const Value code = a.pop();
  Ref made = Ref::steal(PyFunction_New(code.get(), a.frame->f_globals));
  if (!made) return Step::error;
  auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
  if (arg & closure) function->func_closure = a.pop().object.release();
  if (arg & annotations) function->func_annotations = a.pop().object.release();
  if (arg & keyword_defaults) function->func_kwdefaults = a.pop().object.release();
  if (arg & defaults) function->func_defaults = a.pop().object.release();
  a.push(std::move(made));
  return Step::next;
}

}  // namespace braze::interpreter
