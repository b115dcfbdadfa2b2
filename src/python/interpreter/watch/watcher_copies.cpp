// python/interpreter/watch/watcher_copies.cpp: what copy.copy() and copy.deepcopy() ask of objects.
#include "python/guards/storage_access.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// Methods by which a class takes a say in how its instances are taken apart.
constexpr const char* say[] = {"__reduce_ex__", "__reduce__", "__getstate__"};

bool leaves_to_object(PyObject* type) {
  for (const char* name : say)
    if (class_entry(type, name) != class_entry(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name)) return false;
  return !class_entry(type, "__getnewargs_ex__");
}

Ref from_copyreg(const char* name) {
  const Ref module = Ref::steal(PyImport_ImportModule("copyreg"));
  Ref found = Ref::steal(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  PyErr_Clear();
  return found;
}

}  // namespace

/// object.__reduce_ex__(4) of an object without slots: its class, what __getnewargs__ gives, its dict.
bool Watcher::reduce(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const bool is_ordinary = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE &&
                           !values_.tensors().is_tensor(object) && !PyType_Check(object) &&
                           !PyExceptionInstance_Check(object) && (!storage_type(object) || PyTuple_Check(object)) &&
                           !is_derived_scalar(object);
  const bool asks_for_copy = count == 1 && PyLong_CheckExact(arguments[0]) && PyLong_AsLong(arguments[0]) >= 2;
  if (!is_ordinary || !asks_for_copy || !leaves_to_object(type))
    return abandon("a copy of an object of this kind", object);
  // A class is told its slots when it is first asked for them.
  const Ref slot_names = from_copyreg("_slotnames");
  const Ref slots = [&] {
    const Pause unwatched;
    return Ref::steal(slot_names ? PyObject_CallOneArg(slot_names.get(), type) : nullptr);
  }();
  PyErr_Clear();
  if (!slots || !PyList_Check(slots.get()) || PyList_GET_SIZE(slots.get()) > 0)
    return abandon("a copy of an object with slots", object);
  if (!keep_special(object, {"__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__"}))
    return false;
  if (class_entry(type, "__getnewargs__") && !special_function(object, "__getnewargs__"))
    return abandon("a copy of an object of this kind", object);
  activities_.back().reduces = object;
  return allow_made_result(Entry::known);
}

/// What object.__reduce_ex__ gave: copyreg.__newobj__, (class, arguments...), the dict of the object itself.
void Watcher::learn_reduced(PyObject* object, PyObject* parts) {
  if (!PyTuple_CheckExact(parts) || PyTuple_GET_SIZE(parts) < 3) return;
  guards::SourceTable& sources = values_.sources();
  PyObject *maker = PyTuple_GET_ITEM(parts, 0), *arguments = PyTuple_GET_ITEM(parts, 1),
           *state = PyTuple_GET_ITEM(parts, 2);
  values_.learn(maker, sources.object(maker, "copyreg.__newobj__"));
  values_.make(arguments);
  values_.learn(reinterpret_cast<PyObject*>(Py_TYPE(object)), type_source(object));
  const guards::Source* source = values_.source_of(object);
  if (state != guards::instance_dict(object)) return;
  if (source)
    values_.learn_as(state, sources.dict_of(source));
  else
    values_.make(state);
}

/// id() in module copy, whose memo is a dict by address: a replay finds there what this run has found, as long as
/// the objects are told apart in the same way.
bool Watcher::address(PyObject* object) {
  const Frame* frame = PyThreadState_Get()->cframe->current_frame;
  PyObject* copy = PyDict_GetItemString(PyImport_GetModuleDict(), "copy");
  const bool is_memo = copy && PyModule_Check(copy) && PyModule_GetDict(copy) == frame->f_globals;
  if (is_memo && values_.is_known(object) && !values_.tensors().is_tensor(object)) {
    values_.tell_apart(object);
    return true;
  }
  // A tensor is another one at nearly every call.
  return (!values_.tensors().is_tensor(object) && values_.source_of(object) && values_.pin(object)) ||
         abandon("the address of an object that is another one in every run", object);
}

}  // namespace braze::interpreter
