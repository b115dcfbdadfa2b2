// python/guards/thread_locals.cpp
#include "python/guards/thread_locals.h"

#include "python/guards/imports.h"
#include "python/guards/ref.h"
#include "python/guards/storage_access.h"

namespace braze::guards {

namespace {

/// threading.local as the interpreter has it, for good. Null where an interpreter has none.
PyTypeObject* local_type() noexcept {
  static PyTypeObject* const type = [] {
    const Ref module = import_module("_thread");
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "_local") : nullptr;
    PyErr_Clear();
    return found && PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found) : nullptr;
  }();
  return type;
}

/// Whether the thread has made the dict. The key is what CPython 3.11 and 3.12 keep it under
/// (Modules/_threadmodule.c).
bool has_dict(PyObject* local) noexcept {
  PyObject* of_thread = PyThreadState_GetDict();
  const Ref key = Ref::steal(of_thread ? PyUnicode_FromFormat("thread.local.%p", local) : nullptr);
  const bool has = key && PyDict_Contains(of_thread, key.get()) == 1;
  if (!has) PyErr_Clear();
  return has;
}

}  // namespace

bool is_thread_local(PyObject* object) noexcept {
  static const getattrofunc own = local_type() ? local_type()->tp_getattro : nullptr;
  return own && Py_TYPE(object)->tp_getattro == own;
}

setattrofunc thread_local_setter() noexcept {
  return local_type() ? local_type()->tp_setattro : nullptr;
}

PyObject* thread_local_dict(PyObject* local) noexcept {
  const NoCollection no_collection;
  if (Py_TYPE(local)->tp_init != PyBaseObject_Type.tp_init && !has_dict(local)) return nullptr;
  const Ref name = Ref::steal(PyUnicode_InternFromString("__dict__"));
  PyObject* dict = name ? local_type()->tp_getattro(local, name.get()) : nullptr;
  if (!dict) PyErr_Clear();
  Py_XDECREF(dict);  // the thread holds it
  return dict;
}

}  // namespace braze::guards
