// python/interpreter/raised.h: the exception that is set on the thread, taken off and put back.
#pragma once

#include "python/interpreter/cpython.h"
#include "python/interpreter/ref.h"

namespace braze::interpreter {

#if PY_VERSION_HEX >= 0x030C0000

inline Ref take_raised() {
  return Ref::steal(PyErr_GetRaisedException());
}

inline void set_raised(Ref exception) {
  PyErr_SetRaisedException(exception.release());
}

/// Sets the thread's exception aside while it lives.
class RaisedAside {
 public:
  RaisedAside() : exception_(PyErr_GetRaisedException()) {}
  ~RaisedAside() { PyErr_SetRaisedException(exception_); }
  PyObject* get() const { return exception_; }
  RaisedAside(const RaisedAside&) = delete;
  RaisedAside& operator=(const RaisedAside&) = delete;

 private:
  PyObject* exception_;
};

/// The key of the KeyError that is set, which is cleared. Null, and it stays, if it has none.
inline Ref take_key_error() {
  Ref raised = take_raised();
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(raised.get())->args;
  if (PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1) return Ref::borrow(PyTuple_GET_ITEM(args, 0));
  set_raised(std::move(raised));
  return {};
}

#else

/// The exception as an instance with its traceback; null if none is set. Making the instance may run Python code.
inline Ref take_raised() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!type) return {};
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_DECREF(type);
  return Ref::steal(value);
}

/// Raises it again, with the traceback that it has.
inline void set_raised(Ref exception) {
  PyObject* traceback = PyException_GetTraceback(exception.get());
  PyObject* type = Py_NewRef(PyExceptionInstance_Class(exception.get()));
  PyErr_Restore(type, exception.release(), traceback);
}

/// Sets the thread's exception aside while it lives.
class RaisedAside {
 public:
  RaisedAside() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~RaisedAside() { PyErr_Restore(type_, value_, traceback_); }
  PyObject* get() const { return value_; }
  RaisedAside(const RaisedAside&) = delete;
  RaisedAside& operator=(const RaisedAside&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

/// The key of the KeyError that is set, which is cleared. Null, and it stays, if it is one that Python code raised.
inline Ref take_key_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!value || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {
    PyErr_Restore(type, value, traceback);
    return {};
  }
  const Ref held[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  return Ref::borrow(PyTuple_GET_ITEM(value, 0));
}

#endif

}  // namespace braze::interpreter
