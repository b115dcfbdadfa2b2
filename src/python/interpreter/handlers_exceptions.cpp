// python/interpreter/handlers_exceptions.cpp: raise, except, except*, with.
//
// An exception on the stack is its instance. Below a handler's exception lies the one that was handled before, and
// below that, where the exception table asks for it, the offset of the instruction that raised.
#include "python/interpreter/exception_table.h"
#include "python/interpreter/handlers.h"
#include "python/interpreter/raised.h"

namespace braze::interpreter {

namespace {

constexpr const char* no_exception_class = "catching classes that do not inherit from BaseException is not allowed";

/// Whether every class (or the one) satisfies `test`; else TypeError with `message`.
template <typename Test>
bool every_class(PyObject* type, const char* message, Test test) {
  const bool is_tuple = PyTuple_Check(type);
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(type) : 1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int ok = test(is_tuple ? PyTuple_GET_ITEM(type, i) : type);
    if (ok > 0) continue;
    if (ok == 0) PyErr_SetString(PyExc_TypeError, message);
    return false;
  }
  return true;
}

bool may_be_caught(PyObject* type) {
  return every_class(type, no_exception_class, [](PyObject* one) { return PyExceptionClass_Check(one) ? 1 : 0; });
}

bool may_be_caught_by_star(PyObject* type) {
  return may_be_caught(type) &&
         every_class(type, "catching ExceptionGroup with except* is not allowed. Use except instead.",
                     [](PyObject* one) {
                       const int is_group = PyObject_IsSubclass(one, PyExc_BaseExceptionGroup);
                       return is_group < 0 ? -1 : !is_group;
                     });
}

/// An instance made from a class or given as one; null with an exception.
Ref instantiate(PyObject* exception) {
  if (!PyExceptionClass_Check(exception)) return Ref::borrow(exception);
  Ref value = Ref::steal(PyObject_CallNoArgs(exception));
  if (!value || PyExceptionInstance_Check(value.get())) return value;
  PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", exception,
               Py_TYPE(value.get()));
  return {};
}

Step raise_again(Activation& a) {
  PyObject* value = _PyErr_GetTopmostException(a.thread)->exc_value;
  if (value && value != Py_None) {
    set_raised(Ref::borrow(value));
    return Step::reraise;
  }
  PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
  return Step::error;
}

bool set_cause(PyObject* value, PyObject* cause) {
  Ref fixed;
  if (PyExceptionClass_Check(cause)) {
    fixed = Ref::steal(PyObject_CallNoArgs(cause));
    if (!fixed) return false;
  } else if (PyExceptionInstance_Check(cause)) {
    fixed = Ref::borrow(cause);
  } else if (cause != Py_None) {
    PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
    return false;
  }
  PyException_SetCause(value, fixed.release());
  return true;
}

struct GroupMatch {
  Ref matched, rest;  ///< None where there is nothing; null with an exception.
};

/// What of an exception `except* type` takes, and what is left of it.
GroupMatch match_group(PyObject* exception, PyObject* type) {
  if (exception == Py_None) return {Ref::borrow(Py_None), Ref::borrow(Py_None)};
  const bool is_group = PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
  if (PyErr_GivenExceptionMatches(exception, type)) {
    if (is_group) return {Ref::borrow(exception), Ref::borrow(Py_None)};
    return {Ref::steal(PyObject_CallFunction(PyExc_BaseExceptionGroup, "s(O)", "", exception)),
            Ref::borrow(Py_None)};
  }
  if (!is_group) return {Ref::borrow(Py_None), Ref::borrow(exception)};
  const Ref pair = Ref::steal(PyObject_CallMethod(exception, "split", "(O)", type));
  if (!pair) return {};
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(exception)->tp_name);
    return {};
  }
  return {Ref::borrow(PyTuple_GET_ITEM(pair.get(), 0)), Ref::borrow(PyTuple_GET_ITEM(pair.get(), 1))};
}

/// Whether this frame has a handler for an exception of the running instruction.
bool has_handler(Activation& a) {
  HandlerRange range{};
  return find_handler_range(a.code(), a.offset_of(a.current), range);
}

/// A special method, looked up on the type as the `with` statement does. Null with an exception.
Ref special_method(PyObject* manager, const char* name, const char* missing) {
  const Ref attribute = Ref::steal(PyUnicode_InternFromString(name));
  if (!attribute) return {};
  Ref method = Ref::steal(_PyObject_LookupSpecial(manager, attribute.get()));
  if (!method && !PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol%s",
                 Py_TYPE(manager)->tp_name, missing);
  return method;
}

}  // namespace

Step push_exc_info(Activation& a, int) {
  Value value = a.pop();
  _PyErr_StackItem* info = a.thread->exc_info;
  PyObject* handled_before = info->exc_value;
  info->exc_value = Py_NewRef(value.get());
  a.push(handled_before ? Ref::steal(handled_before) : Ref::borrow(Py_None));
  a.push(std::move(value.object));
  return Step::next;
}

Step pop_except(Activation& a, int) {
  _PyErr_StackItem* info = a.thread->exc_info;
  const Ref handled = Ref::steal(info->exc_value);
  info->exc_value = a.pop().object.release();
  return Step::next;
}

Step check_exc_match(Activation& a, int) {
  const Value type = a.pop();
  if (!may_be_caught(type.get())) return Step::error;
  a.push_bool(PyErr_GivenExceptionMatches(a.peek(1), type.get()));
  return Step::next;
}

// From [exception] to [rest, matched], or to [exception, None].
Step check_eg_match(Activation& a, int) {
  const Value type = a.pop();
  if (!may_be_caught_by_star(type.get())) return Step::error;
  GroupMatch found = match_group(a.peek(1), type.get());
  if (!found.matched || !found.rest) return Step::error;
  if (found.matched.get() != Py_None) {
    const Value whole = a.pop();
    PyErr_SetHandledException(found.matched.get());
    a.push(std::move(found.rest));
  }
  a.push(std::move(found.matched));
  return Step::next;
}

// Puts what the handlers raised and what they left together again: a function that CPython does not export.
Step prep_reraise_star(Activation& a, int) {
  return a.hand_over(Handover::except_star);
}

// With an argument, the traceback's line is that of the instruction which raised first: its offset lies on the
// stack.
Step reraise(Activation& a, int arg) {
  if (arg) {
    PyObject* offset = a.peek(arg + 1);
    if (!PyLong_Check(offset)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Step::error;
    }
    a.frame->prev_instr = first_unit(a.code()) + PyLong_AsLong(offset);
  }
  set_raised(std::move(a.pop().object));
  return Step::reraise;
}

Step raise_varargs(Activation& a, int arg) {
  if (arg == 0) return raise_again(a);
  const Value cause = arg == 2 ? a.pop() : Value{};
  const Value exception = a.pop();
  if (!PyExceptionClass_Check(exception.get()) && !PyExceptionInstance_Check(exception.get())) {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return Step::error;
  }
  const Ref value = instantiate(exception.get());
  if (!value || (cause.object && !set_cause(value.get(), cause.get()))) return Step::error;
  // The class as it was raised: a class whose call gives an instance of another one.
  PyObject* type =
      PyExceptionClass_Check(exception.get()) ? exception.get() : PyExceptionInstance_Class(value.get());
  PyErr_SetObject(type, value.get());
  return Step::error;
}

// Where CPython ends frames, what is raised again and has no handler here is raised by its own instruction: an
// exception that is handed over would get this line a second time.
Step reraise_or_end(Activation& a, int arg) {
  return has_handler(a) ? reraise(a, arg) : Step::ends;
}

Step raise_or_end(Activation& a, int arg) {
  return arg > 0 || has_handler(a) ? raise_varargs(a, arg) : Step::ends;
}

// After throw() into a `yield from` whose iterator raised. The stack: iterator, value sent last, exception. A
// StopIteration is the end of the iteration, with its value.
Step cleanup_throw(Activation& a, int) {
  PyObject* exception = a.peek(1);
  if (!PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
    if (!has_handler(a)) return Step::ends;
    set_raised(Ref::borrow(exception));
    return Step::reraise;
  }
  Ref value = Ref::borrow(reinterpret_cast<PyStopIterationObject*>(exception)->value);
  a.drop(3);
  a.push(Ref::borrow(Py_None));
  a.push(std::move(value));
  return Step::next;
}

Step load_assertion_error(Activation& a, int) {
  a.push_borrowed(PyExc_AssertionError);
  return Step::next;
}

Step before_with(Activation& a, int) {
  const Ref enter = special_method(a.peek(1), "__enter__", "");
  if (!enter) return Step::error;
  Ref exit = special_method(a.peek(1), "__exit__", " (missed __exit__ method)");
  if (!exit) return Step::error;
  a.pop();
  a.push(std::move(exit));
  return a.push_result(PyObject_CallNoArgs(enter.get()));
}

// The stack: __exit__, offset, exception handled before, exception.
Step with_except_start(Activation& a, int) {
  PyObject* value = a.peek(1);
  const Ref traceback = Ref::steal(PyException_GetTraceback(value));
  PyObject* arguments[4] = {nullptr, PyExceptionInstance_Class(value), value,
                            traceback ? traceback.get() : Py_None};
  return a.push_result(PyObject_Vectorcall(a.peek(4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

}  // namespace braze::interpreter
