// python/interpreter/watch/watcher_slots.cpp: special methods of builtin classes that are called by their names.
//
//   found in a class        torch.Tensor.__getitem__(x, 0), dict.__contains__(d, k)
//   bound to an object      x.__getitem__(0), super().__setitem__(k, v)
#include <string_view>

#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

namespace {

/// Slots of builtin containers that only read, and give what C code makes of it.
const Names& reading_slots() {
  static const Names names = {"__add__", "__contains__", "__eq__", "__ge__",  "__gt__",       "__le__",  "__lt__",
                              "__mul__", "__ne__",       "__or__", "__and__", "__reversed__", "__rmul__"};
  return names;
}

}  // namespace

/// \param owner  the class that the slot is one of.
bool Watcher::call_slot(PyTypeObject* owner, std::string_view name, PyObject* self, PyObject* const* arguments,
                        Py_ssize_t count) {
  if (owner == &PyType_Type && name == "__call__") return instantiate(self, arguments, count);
  if (name == "__call__" && PyCallable_Check(self) && (PyFunction_Check(self) || PyMethod_Check(self)))
    return call(self, arguments, count);
  if (values_.tensors().is_tensor(self)) {
    if (name == "__getitem__" && count == 1) return subscript(self, arguments[0]);
    if (name == "__setitem__" && count == 2) return store_item(self, arguments[0], arguments[1]);
    return abandon("a slot that is not understood", self);
  }
  if (guards::is_scalar(self) && owner != &PyBaseObject_Type && name != "__new__" && name != "__init__") {
    if (!all_data(arguments, count)) return abandon("a slot that is given an object", self);
    return absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (owner != &PyBaseObject_Type && (owner == storage_type(self) || owner == &PyDict_Type))
    return call_container_slot(name, self, arguments, count);
  if (name == "__next__" && count == 0 && is_older_iterator(self)) return ask_next(self);
  if (name == "__next__" && count == 0 && values_.is_made(self) && Py_TYPE(self)->tp_iternext)
    return allow_made_result(Entry::known);
  if (owner == &PyProperty_Type && name == "__init__" && values_.is_made(self)) return allow_made_result();
  if (owner != &PyBaseObject_Type) return abandon("a slot that is not understood", self);
  return call_object_slot(name, self, arguments, count);
}

/// A slot bound to an object: found through super(), or on the object.
bool Watcher::call_bound_slot(PyObject* slot, PyObject* const* arguments, Py_ssize_t count) {
  const Ref name = Ref::steal(PyObject_GetAttrString(slot, "__name__"));
  const Ref self = Ref::steal(PyObject_GetAttrString(slot, "__self__"));
  const Ref owner = Ref::steal(PyObject_GetAttrString(slot, "__objclass__"));
  if (!name || !self || !owner || !PyType_Check(owner.get()) || !values_.is_known(self.get()))
    return abandon("a slot that is not understood", slot);
  return call_slot(reinterpret_cast<PyTypeObject*>(owner.get()), text_of(name.get()), self.get(), arguments, count);
}

/// weakref.ref(object), without a callback. Tensors of the run are held by the capture, and live on.
bool Watcher::make_weak_reference(PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1 || keyword_names_) return abandon("a weak reference with a callback");
  PyObject* referent = arguments[0];
  const bool stays =
      values_.is_known(referent) && !values_.tensors().is_tensor(referent) && !PyType_Check(referent);
  if (!stays) return abandon("a weak reference to a tensor, a class or an object of unknown origin", referent);
  return allow_made_result();
}

/// What a weak reference gives is there, or gone, at later calls too.
bool Watcher::call_weak_reference(PyObject* reference) {
  const guards::Source* source = values_.source_of(reference);
  if (!source) return values_.is_made(reference) || abandon("a weak reference of unknown origin", reference);
  if (values_.has_drops()) return abandon("a weak reference to what the function may have dropped", reference);
  const guards::Source* referent = values_.sources().member(source, guards::Member::weakref_referent);
  PyObject* object = PyWeakref_GET_OBJECT(reference);
  if (object == Py_None) {
    values_.guards().absent(referent);
    return true;
  }
  return values_.learn(object, referent) || abandon("an object that cannot be guarded", object);
}

/// object.__init__ and its like.
bool Watcher::call_object_slot(std::string_view name, PyObject* self, PyObject* const* arguments,
                               Py_ssize_t count) {
  if (name == "__init__") return allow_made_result();
  const bool has_name = count >= 1 && PyUnicode_CheckExact(arguments[0]) && values_.is_known(self);
  const bool is_ordinary = !values_.tensors().is_tensor(self) && !PyType_Check(self);
  if (name == "__getattribute__" && count == 1 && has_name) return plain_attribute(self, arguments[0]);
  if (name == "__setattr__" && count == 2 && has_name && is_ordinary)
    return plain_store(self, arguments[0], arguments[1]);
  if (name == "__delattr__" && count == 1 && has_name && is_ordinary)
    return plain_store(self, arguments[0], nullptr);
  if ((name == "__eq__" || name == "__ne__") && count == 1 && is_ordinary)
    return compare_identity(self, arguments[0]);
  return abandon("a slot that is not understood", self);
}

/// A slot of a builtin container, called on it or on an instance of a subclass.
bool Watcher::call_container_slot(std::string_view name, PyObject* self, PyObject* const* arguments,
                                  Py_ssize_t count) {
  if (!values_.is_known(self)) return abandon("a slot of an object of unknown origin", self);
  const bool made = values_.is_made(self), is_dict = PyDict_Check(self);
  if (name == "__init__" && made) {
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!guards::is_scalar(arguments[i]) && !iterate(arguments[i])) return false;
    return allow_made_result(Entry::known);
  }
  if (name == "__setitem__" && count == 2)
    return is_dict ? store_entry(self, arguments[0], arguments[1])
                   : PyList_Check(self) && operand(arguments[0], "an index") && change_list(self);
  if (name == "__delitem__" && count == 1)
    return is_dict ? delete_entry(self, arguments[0])
                   : PyList_Check(self) && operand(arguments[0], "an index") && change_list(self);
  if (name == "__getitem__" && count == 1 && is_dict && PyDict_Contains(self, arguments[0]) == 1)
    return made || values_.look_up(self, arguments[0]) || abandon("an entry that cannot be guarded", self);
  if (name == "__getitem__" && count == 1 && !is_dict)
    return (operand(arguments[0], "an index") && values_.open(self) && allow_made_result()) ||
           abandon("a container that cannot be guarded", self);
  if (name == "__contains__" && count == 1 && is_dict)
    return made ? operand(arguments[0], "a key of unknown origin")
                : values_.look_up(self, arguments[0]) || abandon("an entry that cannot be guarded", self);
  if (name == "__iter__" && is_dict) values_.iterate_dict(self);
  if ((name == "__len__" || name == "__iter__") && count == 0 && !PyAnySet_Check(self))
    return (values_.open(self) && allow_made_result()) || abandon("a container that cannot be guarded", self);
  if (reading_slots().contains(name) && count <= 1)
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr) && allow_made_result();
  return abandon("a slot that is not understood", self);
}

}  // namespace braze::interpreter
