// python/interpreter/watch/methods.cpp
#include "python/interpreter/watch/methods.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "python/guards/random_state.h"
#include "python/guards/scalar.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/watch/absorb.h"
#include "python/interpreter/watch/addresses.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/pairs_of_sizes.h"
#include "python/interpreter/watch/scalar_world.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// Methods of builtin containers that only read.
const Names& reading_methods() {
  static const Names names = {"copy",         "count",      "get",       "index",    "items",
                              "keys",         "values",     "union",     "issubset", "issuperset",
                              "intersection", "difference", "isdisjoint"};
  return names;
}

/// Loggers keep under a lock at which levels they are enabled; a replay does without.
bool is_logging_code(const Frame* frame) {
  PyObject* logging = PyDict_GetItemString(PyImport_GetModuleDict(), "logging");
  return logging && PyModule_Check(logging) && PyModule_GetDict(logging) == frame->f_globals;
}

}  // namespace

/// Names of codecs and of ways to handle errors that no registry is asked for.
bool names_builtin_codec(PyObject* const* names, Py_ssize_t count) {
  static const Names builtin = {"utf-8",        "utf8",   "utf_8",  "UTF-8",  "ascii",   "ASCII",
                                "latin-1",      "latin1", "strict", "ignore", "replace", "surrogateescape",
                                "surrogatepass"};
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!builtin.contains(text_of(names[i]))) return false;
  return true;
}

/// What a call by place alone passes says how large a tensor is to be.
static bool are_of_size(PyObject* const* arguments, Py_ssize_t count) {
  return (count == 1 && is_a(arguments[0], "torch.Size")) ||
         (count > 0 && std::all_of(arguments, arguments + count,
                                   [](PyObject* argument) { return PyLong_CheckExact(argument); }));
}

/// `x.new(2, 3)` and `x.new(size)` ask the tensor for its legacy class, which tracers do not have: they are what
/// new_empty() gives.
void Methods::put_new_empty() {
  if (!run_.callee) return;
  PyObject *callee = *run_.callee, *other = class_entry(values_.tensors().tensor_type(), "new_empty");
  if (!other || !Py_IS_TYPE(other, &PyMethodDescr_Type)) return;
  if (Py_IS_TYPE(callee, &PyMethodDescr_Type)) {
    Py_SETREF(*run_.callee, Py_NewRef(other));
  } else if (PyCFunction_CheckExact(callee)) {  // Bound, where a star unpacks what it is given.
    PyObject* self = PyCFunction_GET_SELF(callee);
    if (PyObject* bound = Py_TYPE(other)->tp_descr_get(other, self, reinterpret_cast<PyObject*>(Py_TYPE(self))))
      Py_SETREF(*run_.callee, bound);
    else
      PyErr_Clear();  // The call raises what eager's does.
  }
}

/// `x.new_tensor(data)` and `x.new(data)` ask the tensor for the key of its device, and tracers have one of their
/// own. What they make depends on the tensor's type and device alone.
void Methods::put_other_of_its_type(PyObject* name, PyObject* self, PyObject* const* arguments) {
  auto* const world = dynamic_cast<ScalarWorld*>(&values_.tensors().sizes());
  if (!run_.callee || !world) return;
  Ref other = world->other_of_its_type(self);
  if (!other) return;
  PyObject*& callee = *run_.callee;
  if (PyCFunction_Check(callee) && PyCFunction_GET_SELF(callee) == self) {
    Ref bound = Ref::steal(PyObject_GetAttr(other.get(), name));
    if (!bound) return PyErr_Clear();
    values_.make(bound.get());
    Py_SETREF(callee, bound.release());
  } else if (watch_.partials.are_on_stack(arguments) && arguments == run_.callee + 2 && run_.callee[1] == self) {
    Py_SETREF(run_.callee[1], other.release());
  }
}

bool Methods::call_method(PyObject* name, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (values_.tensors().is_tensor(self)) {
    TensorWorld& tensors = values_.tensors();
    const bool gives_class = text_of(name) == "as_subclass" && count == 1 && PyType_Check(arguments[0]) &&
                             values_.is_known(arguments[0]) && tensors.keep_tensor_class(as_type(arguments[0]));
    const bool may_call = values_.is_known(self) && (gives_class || tensors.may_call_method(name) ||
                                                     tensors.changes_only_itself(self, name, arguments, count));
    if (!may_call) {
      if (text_of(name) == "numpy") return watch_.traced_arrays.call_numpy(self, arguments, count);
      const std::optional<Break> why = tensors.why_not(name);
      return why ? abandon(*why) : abandon("a method of tensors that is not understood", name);
    }
    if (gives_class) return values_.pin(arguments[0]) && allow_made_result(Entry::tensor);
    const bool is_new = text_of(name) == "new",
               is_of_size = is_new && !run_.keyword_names && are_of_size(arguments, count);
    if (is_of_size) put_new_empty();
    if (const guards::Source* source = values_.source_of(self); source && text_of(name) == "storage_offset") {
      const guards::Source* offset = values_.sources().member(source, guards::Member::storage_offset);
      PyObject* number = guards::load(*offset, self, {});
      return (number && values_.learn(number, offset)) ||
             abandon("a method of tensors that is not understood", name);
    }
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!absorb_by_torch(values_, arguments[i]) && !absorb_all(arguments + i, 1, nullptr)) return false;
    if ((is_new && !is_of_size) || text_of(name) == "new_tensor") put_other_of_its_type(name, self, arguments);
    return allow_made_result(Entry::tensor);
  }
  if (is_a(self, "torch.device") && (text_of(name) == "__enter__" || text_of(name) == "__exit__"))
    return abandon("a device as a context", self);
  if (PyUnicode_CheckExact(self) && text_of(name) == "join" && count == 1 && !is_data(arguments[0]))
    return watch_.containers.iterate(arguments[0]) && allow_made_result(Entry::known) && looks();
  if (Arrays::is_object(self)) return watch_.arrays.call_method(text_of(name), self, arguments, count);
  if (guards::is_random_generator(self))
    return watch_.random_numbers.call_method(text_of(name), self, arguments, count);
  if (guards::is_scalar(self)) {
    if (!all_data(arguments, count)) {
      const bool is_format = PyUnicode_CheckExact(self) && text_of(name) == "format";
      if (is_format && watch_.conversions.fills_in(self, arguments, count))
        return allow_made_result(Entry::known) && looks();
      return !abandoned() && abandon("text is made of an object", name);
    }
    const bool converts = text_of(name) == "encode" || text_of(name) == "decode";
    if (converts && !names_builtin_codec(arguments, count)) return abandon("a codec that others may replace", name);
    return absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (!values_.is_known(self)) return abandon("a method of an object of unknown origin", self);
  const std::string_view text = text_of(name);
  if (is_derived_scalar(self) && derived_method(self, std::string(text).c_str()) && all_data(arguments, count))
    return ((text.starts_with("__") ? absorb(values_, self) : absorb_content(values_, self)) &&
            absorb_all(arguments, count, nullptr) && allow_made_result()) ||
           abandon("a method of a class that is not understood", self);
  if (PyObject* dict = watch_.views.dict_behind(self)) {
    if (Py_IS_TYPE(self, &PyDictProxy_Type)) return call_method(name, dict, arguments, count);
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (is_a(self, "torch.Size") && text == "numel") return absorb_all(&self, 1, nullptr);
  if (PyContextVar_CheckExact(self)) return watch_.library.call_context_variable(text, self, arguments, count);
  if (PyGen_CheckExact(self)) {
    if (text == "send" || text == "throw" || text == "close")
      return watch_.generators.resume_generator(self, arguments, count);
    return abandon("a method that is not understood", name);
  }
  if (text == "__reduce_ex__") return watch_.copies.reduce(self, arguments, count);
  if (is_a(self, "_thread.RLock") && (text == "acquire" || text == "release") && count == 0) {
    if (!is_logging_code(PyThreadState_Get()->cframe->current_frame)) return abandon("a lock", self);
    text == "acquire" ? values_.effects().locks().take(self) : values_.effects().locks().release(self);
    return true;
  }
  if (is_a(self, "_thread.RLock") && text == "__exit__") {
    values_.effects().locks().release(self);
    return true;
  }
  if (is_a(self, "re.Pattern") || is_a(self, "re.Match"))
    return watch_.library.call_pattern(self, arguments, count);
  if (PySlice_Check(self) && text == "indices") {
    const auto* ends = reinterpret_cast<PySliceObject*>(self);
    PyObject* const parts[] = {ends->start, ends->stop, ends->step};
    if (!all_data(parts, 3) || !all_data(arguments, count)) return abandon("an index", self);
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  // How many are left is known of an iterator whose items are.
  if (text == "__length_hint__" && count == 0 && values_.is_made(self) && is_exact_builtin(Py_TYPE(self)))
    return absorb(values_, self) && allow_made_result();
  if (PyRange_Check(self)) return absorb_all(arguments, count, nullptr) && allow_made_result();
  if (is_a(self, "collections.deque")) return watch_.deques.call_deque(text, self, arguments, count);
  // Of a subclass of a container: the method that it inherits.
  PyTypeObject* storage = storage_type(self);
  PyObject* method =
      storage ? class_entry(reinterpret_cast<PyObject*>(storage), std::string(text).c_str()) : nullptr;
  if (!method || (!Py_IS_TYPE(method, &PyMethodDescr_Type) && !Py_IS_TYPE(method, &PyWrapperDescr_Type)))
    return abandon("a method that is not understood", name);
  if (text.starts_with("__")) return watch_.containers.call_container_slot(text, self, arguments, count);
  const bool asks_set = text == "add" || text == "discard" || text == "remove";
  if (asks_set && PySet_CheckExact(self) && values_.is_made(self) && count == 1)
    return keys_fit(values_, self, arguments[0]) ? watch_.containers.hashes(arguments[0])
                                                 : abandon(Break::address_of_object);
  if (PyAnySet_CheckExact(self) && !watch_.iterables.put_items("set." + std::string(text), arguments, count))
    return false;
  const bool is_updated = PyDict_Check(self) && text == "update" && count > 0 && values_.is_known(arguments[0]) &&
                          !values_.tensors().is_tensor(arguments[0]);
  if (is_updated && (Iterables::is_asked_for_keys(arguments[0], PyODict_Check(self)) ||
                     (storage == Py_TYPE(self) && run_.callee && Py_IS_TYPE(*run_.callee, &PyMethodDescr_Type) &&
                      gives_pairs_of_sizes(values_, arguments[0]))))
    return watch_.iterables.update(self, arguments, count);
  static const Names on_sets = {"difference", "intersection", "isdisjoint", "issubset",
                                "issuperset", "union",        "update"};
  const bool is_given_text =
      count == 1 && (text == "issubset" || text == "issuperset") && PyUnicode_Check(arguments[0]);
  if (PyAnySet_CheckExact(self) && is_given_text && absorb_content(values_, arguments[0]))
    return (values_.open(self) && allow_made_result()) || abandon("a container that cannot be guarded", self);
  if (PyAnySet_CheckExact(self) && values_.is_made(self) && on_sets.contains(text))
    return watch_.containers.update_set(arguments, count);
  if (values_.is_made(self) && text == "sort") return watch_.containers.sort(self, arguments, count);
  const bool searches = PyList_CheckExact(self) && (text == "remove" || text == "index" || text == "count");
  if (values_.is_made(self) && searches && count == 1 && PyTuple_CheckExact(arguments[0]))
    return watch_.containers.search_list(self, arguments[0]);
  if (values_.is_made(self)) {
    const bool keeps = text == "append" || text == "extend" || text == "insert" || text == "pop" || text == "clear";
    if (keeps && PyList_Check(self))
      return (text != "extend" || watch_.containers.iterate(arguments[0])) && allow(Entry::known);
    const bool takes_entries = PyDict_Check(self) && text == "update" && count > 0;
    const bool is_plain_dict =
        takes_entries && (is_exact_dict(arguments[0]) || (!PyODict_Check(self) && values_.is_known(arguments[0]) &&
                                                          watch_.iterables.is_read_as_dict(arguments[0])));
    if (is_plain_dict) {
      // The entries are handed on as they are.
      for (Py_ssize_t i = 1; i < count; ++i)
        if (!values_.is_known(arguments[i])) return abandon("a value of unknown origin", arguments[i]);
      values_.iterate_dict(arguments[0]);
      return values_.open(arguments[0]) || abandon("a dict that cannot be guarded", arguments[0]);
    }
    const bool stores = PyDict_Check(self) && (text == "pop" || text == "setdefault" || text == "get");
    if (stores && count >= 1)
      return keys_fit(values_, self, arguments[0]) ? watch_.containers.hashes(arguments[0])
                                                   : abandon(Break::address_of_object);
    return absorb_all(arguments, count, nullptr) && allow_made_result(Entry::known);
  }
  if (!reading_methods().contains(text)) return watch_.containers.change_by_method(text, self, arguments, count);
  if (text == "get" && PyDict_Check(self) && count >= 1) return watch_.containers.look_up(self, arguments[0]);
  return (values_.open(self) && absorb_all(arguments, count, nullptr) && allow_made_result()) ||
         abandon("a container that cannot be guarded", self);
}

bool Methods::call_descriptor(PyObject* descriptor, PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* name = PyDescr_NAME(descriptor);
  return Py_IS_TYPE(descriptor, &PyMethodDescr_Type)
             ? call_method(name, self, arguments, count)
             : call_slot(PyDescr_TYPE(descriptor), text_of(name), self, arguments, count);
}

bool Methods::call_slot(PyTypeObject* owner, std::string_view name, PyObject* self, PyObject* const* arguments,
                        Py_ssize_t count) {
  if (owner == &PyModule_Type && name == "__getattribute__" && count == 1 && PyUnicode_CheckExact(arguments[0]))
    return watch_.attributes.attribute(self, arguments[0]);
  if (owner == &PyType_Type && name == "__call__") return watch_.instances.instantiate(self, arguments, count);
  if (name == "__call__" && PyCallable_Check(self) && (PyFunction_Check(self) || PyMethod_Check(self)))
    return watch_.calls.call(self, arguments, count);
  if (owner == &PyFunction_Type && name == "__get__") return bind_function(self, arguments, count);
  if (values_.tensors().is_tensor(self)) {
    if (name == "__getitem__" && count == 1) return watch_.containers.subscript(self, arguments[0]);
    if (name == "__setitem__" && count == 2) return watch_.containers.store_item(self, arguments[0], arguments[1]);
    return abandon("a slot that is not understood", self);
  }
  if (guards::is_scalar(self) && owner != &PyBaseObject_Type && name != "__new__" && name != "__init__") {
    if (!all_data(arguments, count)) return abandon("a slot that is given an object", self);
    return absorb_all(arguments, count, nullptr) && allow_made_result();
  }
  if (owner != &PyBaseObject_Type && count <= 1) {
    if (PyObject* dict = watch_.views.dict_behind(self); dict && !Py_IS_TYPE(self, &PyDictProxy_Type)) {
      if (name == "__contains__" && count == 1) return watch_.containers.contains(self, arguments[0]);
      if (name == "__iter__") values_.iterate_dict(dict);
      if ((name == "__iter__" || name == "__len__") && count == 0)
        return (values_.open(dict) && allow_made_result()) || abandon("a dict that cannot be guarded", dict);
    }
  }
  if (owner != &PyBaseObject_Type && (owner == storage_type(self) || owner == &PyDict_Type))
    return watch_.containers.call_container_slot(name, self, arguments, count);
  if (name == "__next__" && count == 0 && watch_.iterators.is_older_iterator(self))
    return watch_.iterators.ask_next(self);
  if (name == "__next__" && count == 0 && values_.is_made(self) && Py_TYPE(self)->tp_iternext)
    return allow_made_result(Entry::known);
  const bool is_of_own_type = owner == Py_TYPE(self) && is_exact_builtin(owner) && !storage_type(self);
  if (name == "__iter__" && count == 0 && is_of_own_type && owner->tp_iter && values_.is_known(self))
    return watch_.iterators.is_older_iterator(self) || watch_.containers.iterate(self);
  if (owner == &PyProperty_Type && name == "__init__" && values_.is_made(self)) return allow_made_result();
  // An exception keeps its arguments, and does not look into them.
  const bool is_exception =
      PyExceptionInstance_Check(self) && PyExceptionClass_Check(reinterpret_cast<PyObject*>(owner));
  if (is_exception && name == "__init__" && values_.is_made(self) && !run_.keyword_names)
    return allow_made_result();
  if (owner != &PyBaseObject_Type) return abandon("a slot that is not understood", self);
  return call_object_slot(name, self, arguments, count);
}

/// A method of an object, made by hand, as the schedulers of torch.optim call the step that they wrap.
bool Methods::bind_function(PyObject* function, PyObject* const* arguments, Py_ssize_t count) {
  const bool makes_method = PyFunction_Check(function) && count >= 1 && arguments[0] != Py_None;
  if (!makes_method || !values_.is_known(function)) return abandon("a slot that is not understood", function);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!values_.is_known(arguments[i])) return abandon("an argument of unknown origin", arguments[i]);
  return allow_made_result();
}

bool Methods::call_bound_slot(PyObject* slot, PyObject* const* arguments, Py_ssize_t count) {
  const Ref name = Ref::steal(PyObject_GetAttrString(slot, "__name__"));
  const Ref self = Ref::steal(PyObject_GetAttrString(slot, "__self__"));
  const Ref owner = Ref::steal(PyObject_GetAttrString(slot, "__objclass__"));
  if (self && name && text_of(name.get()) == "__get__" &&
      watch_.tensor_attributes.reads_by_descriptor(self.get(), arguments, count))
    return true;
  if (abandoned()) return false;
  if (!name || !self || !owner || !PyType_Check(owner.get()) || !values_.is_known(self.get()))
    return abandon("a slot that is not understood", slot);
  return call_slot(reinterpret_cast<PyTypeObject*>(owner.get()), text_of(name.get()), self.get(), arguments, count);
}

/// object.__init__ and its like.
bool Methods::call_object_slot(std::string_view name, PyObject* self, PyObject* const* arguments,
                               Py_ssize_t count) {
  if (name == "__init__") return allow_made_result();
  const bool has_name = count >= 1 && PyUnicode_CheckExact(arguments[0]) && values_.is_known(self);
  const bool is_ordinary = !values_.tensors().is_tensor(self) && !PyType_Check(self);
  if (name == "__getattribute__" && count == 1 && has_name)
    return watch_.attributes.plain_attribute(self, arguments[0]);
  if (name == "__setattr__" && count == 2 && has_name && is_ordinary)
    return watch_.attributes.plain_store(self, arguments[0], arguments[1]);
  if (name == "__delattr__" && count == 1 && has_name && is_ordinary)
    return watch_.attributes.plain_store(self, arguments[0], nullptr);
  if ((name == "__eq__" || name == "__ne__") && count == 1 && is_ordinary)
    return watch_.operators.compare_identity(self, arguments[0]);
  return abandon("a slot that is not understood", self);
}

}  // namespace braze::interpreter
