// python/interpreter/watch/watched_run.cpp
#include "python/interpreter/watch/watched_run.h"

#include <string>

#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/interpreter/raised.h"
#include "python/interpreter/watch/absorb.h"

namespace braze::interpreter {

bool WatchedRun::abandon(BreakReason why, PyObject* subject) {
  if (abandoned) return false;
  abandoned = true;
  const RaisedAside aside;
  place = why;
  if (subject) place.reason += std::string(" (") + guards::describe(subject) + ")";
  if (PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get())) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    place.file = file ? file : "?";
    place.line = PyFrame_GetLineNumber(frame);
    Py_DECREF(code);
    Py_DECREF(frame);
  }
  return false;
}

bool WatchedRun::operand(PyObject* value, BreakReason why) {
  return absorb(values, value) || abandon(why, value);
}

bool WatchedRun::operands(std::initializer_list<PyObject*> values, BreakReason why) {
  bool any_tensor = false;
  for (PyObject* value : values) {
    if (!operand(value, why)) return false;
    any_tensor |= this->values.tensors().is_tensor(value);
  }
  return allow_made_result(any_tensor ? Entry::tensor : Entry::none);
}

bool WatchedRun::absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!absorb(values, arguments[i]))
      return abandon("a C function is given an object whose parts are not guarded", arguments[i]);
  return true;
}

bool WatchedRun::lets_go(PyObject* value, const guards::Source* source, bool contents) {
  return values.drops().add(value, source, contents) ||
         abandon("an object is dropped that may have a finalizer", contents ? nullptr : value);
}

bool WatchedRun::lets_go_of_entry(PyObject* dict, PyObject* key) {
  const guards::Source* source = values.source_of(dict);
  if (!source || values.effects().wrote(dict, key)) return true;
  return lets_go(guards::entry_of_key(dict, key), values.sources().dict_item(source, key));
}

}  // namespace braze::interpreter
