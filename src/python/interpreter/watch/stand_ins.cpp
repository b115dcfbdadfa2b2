// python/interpreter/watch/stand_ins.cpp
#include "python/interpreter/watch/stand_ins.h"

#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

bool StandIns::call_stand_in(PyObject* function, PyObject* stand_in) {
  PyObject* callee = *run_.callee;
  const bool is_method = Py_IS_TYPE(callee, &PyMethod_Type) && PyMethod_GET_FUNCTION(callee) == function;
  if (callee != function && !is_method) return abandon("a call that is not understood", function);
  if (!values_.pin(function)) return abandon("a function of unknown origin", function);
  PyObject* other = is_method ? PyMethod_New(stand_in, PyMethod_GET_SELF(callee)) : Py_NewRef(stand_in);
  if (!other) return abandon("no memory");
  values_.learn(stand_in, values_.sources().object(stand_in, "braze's form of a function"));
  if (is_method) values_.make(other);
  Py_SETREF(*run_.callee, other);
  activity().is_direct = true;
  return allow(Entry::known);
}

bool StandIns::call_with_callable(PyObject* subject, PyObject* stand_in, PyObject* const* arguments,
                                  Py_ssize_t count) {
  PyObject* callee = run_.callee ? *run_.callee : nullptr;
  const bool is_bound = callee && PyCFunction_Check(callee) && PyCFunction_GET_SELF(callee) == subject;
  if (!callee || (callee != subject && !is_bound)) return abandon("a call that is not understood", subject);
  if (!values_.pin(subject)) return abandon("a function of unknown origin", subject);
  values_.learn(stand_in, values_.sources().object(stand_in, "braze's form of a function"));
  return call_bound(stand_in, subject, arguments, count);
}

bool StandIns::call_bound(PyObject* function, PyObject* subject, PyObject* const* arguments, Py_ssize_t count) {
  const Ref method = Ref::steal(PyMethod_New(function, subject));
  if (!method) return abandon("no memory");
  values_.make(method.get());
  Py_SETREF(*run_.callee, Py_NewRef(method.get()));
  return watch_.calls.call(method.get(), arguments, count);
}

bool StandIns::put_stand_in(PyObject* callable, PyObject* stand_in) {
  if (!values_.pin(callable)) return abandon("a function of unknown origin", callable);
  values_.learn(stand_in, values_.sources().object(stand_in, "braze's form of a function"));
  Py_SETREF(*run_.callee, Py_NewRef(stand_in));
  return true;
}

bool StandIns::put_caller(PyObject*& callable) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_operator");
  PyObject* call =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "call") : nullptr;
  return call && bind(callable, values_.tensors().stand_in_for(call));
}

bool StandIns::put_collector(PyObject*& type) {
  const bool is_dict =
      type == reinterpret_cast<PyObject*>(&PyDict_Type) || type == reinterpret_cast<PyObject*>(&PyODict_Type);
  return put_form(type, is_dict ? "dict" : "set");
}

bool StandIns::put_form(PyObject*& callable, const char* name) {
  PyObject* key = interned(name);
  return key && bind(callable, values_.tensors().stand_in_for(key));
}

/// A method of the stand-in, of which the callable is the first argument, in its place.
bool StandIns::bind(PyObject*& callable, PyObject* stand_in) {
  if (!stand_in) return false;
  values_.learn(stand_in, values_.sources().object(stand_in, "braze's form of a function"));
  Ref method = Ref::steal(PyMethod_New(stand_in, callable));
  if (!method) return abandon("no memory");
  values_.make(method.get());
  Py_SETREF(callable, method.release());
  return true;
}

bool StandIns::put_stand_in_partial(guards::Ref (&parts)[3], PyObject* stand_in) {
  PyObject* partial = *run_.callee;
  const Py_ssize_t count = PyTuple_GET_SIZE(parts[1].get());
  const Ref all = Ref::steal(PyTuple_New(count + 1));
  if (!all) return abandon("no memory");
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(stand_in));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(parts[1].get(), i)));
  const Ref other =
      Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(partial)), all.get(), parts[2].get()));
  if (!other || !put_stand_in(parts[0].get(), stand_in)) return abandon("no memory");
  parts[0] = guards::Ref::borrow(stand_in);
  values_.make(other.get());
  Py_SETREF(*run_.callee, Py_NewRef(other.get()));
  return true;
}

}  // namespace braze::interpreter
