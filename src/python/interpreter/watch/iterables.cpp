// python/interpreter/watch/iterables.cpp
#include "python/interpreter/watch/iterables.h"

#include <vector>

#include "python/guards/storage_access.h"
#include "python/interpreter/evaluate.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// C functions that go through arguments of theirs from the beginning, before they return, by `iter()`.
struct Goer {
  std::string_view name;
  Py_ssize_t first = 0, last = 0;
  bool asks_length = false;  ///< By `__len__` or `__length_hint__`, before the first item.
};

const Goer* goer(std::string_view name) {
  constexpr Py_ssize_t all = PY_SSIZE_T_MAX;
  static constexpr Goer rows[] = {
      {"sum"},
      {"any"},
      {"all"},
      {"min"},
      {"max"},
      {"sorted", 0, 0, true},
      {"fromkeys"},
      {"math.prod"},
      {"math.fsum"},
      {"_functools.reduce", 1, 1},
      {"itertools.product", 0, all, true},
      {"set.update", 0, all},
      {"set.union", 0, all},
      {"set.difference", 0, all},
      {"set.difference_update", 0, all},
      {"set.intersection", 0, all},
      {"set.intersection_update", 0, all},
      {"set.isdisjoint", 0, all},
      {"set.issubset", 0, all},
      {"set.issuperset", 0, all},
      {"set.symmetric_difference", 0, all},
  };
  for (const Goer& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

/// `__getattribute__` in Python could give anything.
bool has_own_lookup(PyTypeObject* type) {
  PyObject* lookup = find_in_type(type, "__getattribute__");
  return !lookup || !Py_IS_TYPE(lookup, &PyWrapperDescr_Type);
}

}  // namespace

bool Iterables::goes_by_python(PyObject* value) const {
  if (!values_.is_known(value) || PyType_Check(value) || values_.tensors().is_tensor(value)) return false;
  if (is_exact_builtin(Py_TYPE(value))) return false;
  if (PyObject* iterate = find_in_type(Py_TYPE(value), "__iter__")) return PyFunction_Check(iterate);
  PyObject* item = find_in_type(Py_TYPE(value), "__getitem__");
  return item && PyFunction_Check(item) && !storage_type(value);
}

bool Iterables::goes_by_index(PyObject* value) {
  if (!goes_by_python(value) || find_in_type(Py_TYPE(value), "__iter__")) return false;
  values_.keep_protocols(value);
  for (const char* name : {"__len__", "__length_hint__"}) watch_.classes.special_function(value, name);
  return watch_.classes.special_function(value, "__getitem__");
}

bool Iterables::advances_by_python(PyObject* iterator) {
  if (!values_.is_known(iterator) || storage_type(iterator) || is_exact_builtin(Py_TYPE(iterator))) return false;
  PyObject* next = find_in_type(Py_TYPE(iterator), "__next__");
  if (!next || !PyFunction_Check(next)) return false;
  values_.keep_protocols(iterator);
  return true;
}

bool Iterables::put(PyObject*& slot, bool asks_length) {
  PyObject* form = values_.tensors().stand_in_for(interned(asks_length ? "items of a list" : "items"));
  if (!form || !PyFunction_Check(form)) return abandon(Break::iteration_not_understood, slot);
  values_.learn(form, values_.sources().object(form, "braze's form of a function"));
  values_.keep_protocols(slot);
  Ref generator;
  {
    const Pause unwatched;  // It is made, and nothing of it runs.
    generator = Ref::steal(PyObject_CallOneArg(form, slot));
  }
  if (!generator) return abandon(Break::no_memory);
  values_.make(generator.get());
  Py_SETREF(slot, generator.release());
  return true;
}

bool Iterables::put_items(std::string_view name, PyObject* const* arguments, Py_ssize_t count) {
  const Goer* const row = goer(name);
  if (!row || !watch_.partials.are_on_stack(arguments)) return true;
  const Py_ssize_t named = run_.keyword_names ? PyTuple_GET_SIZE(run_.keyword_names) : 0;
  if ((name == "min" || name == "max") && count - named != 1) return true;  // Of the arguments themselves.
  for (Py_ssize_t i = row->first; i < count - named && i <= row->last; ++i) {
    if (!goes_by_python(arguments[i]) || PyAnySet_Check(arguments[i])) continue;
    if (!put(const_cast<PyObject**>(arguments)[i], row->asks_length)) return false;
  }
  return true;
}

bool Iterables::is_searched(PyObject* object, PyObject* item) const {
  const bool is_plain = guards::is_scalar(item) || values_.tensors().is_plain(item);
  const bool is_own_iterator =
      values_.is_made(object) && Py_TYPE(object)->tp_iternext && is_exact_builtin(Py_TYPE(object));
  return is_plain && !storage_type(object) && (is_own_iterator || goes_by_python(object)) &&
         !find_in_type(Py_TYPE(object), "__contains__");
}

bool Iterables::is_extended_by(PyObject* list, PyObject* object) const {
  return PyList_CheckExact(list) && values_.is_made(list) && goes_by_python(object) &&
         !find_in_type(Py_TYPE(object), "__radd__");
}

bool Iterables::is_read_as_dict(PyObject* value) {
  return PyDict_Check(value) && (PyDict_CheckExact(value) || (Py_TYPE(value)->tp_iter == PyDict_Type.tp_iter &&
                                                              watch_.classes.acts_as_builtin(value, "__iter__")));
}

bool Iterables::is_asked_for_keys(PyObject* value, bool by_ordered) {
  const bool is_dict = PyDict_Check(value);
  const bool is_storage =
      is_dict ? !by_ordered && Py_TYPE(value)->tp_iter == PyDict_Type.tp_iter : storage_type(value) != nullptr;
  if (is_storage || PyType_Check(value) || is_exact_builtin(Py_TYPE(value))) return false;
  PyObject* keys = find_in_type(Py_TYPE(value), "keys");
  return keys && (PyFunction_Check(keys) || PyDict_Check(value));
}

/// As PyDict_Merge() does: `keys` is called, what it gives is gone through, and each item is asked for.
bool Iterables::merge(PyObject* mapping) {
  if (!values_.is_known(mapping) || !is_asked_for_keys(mapping) || values_.tensors().is_tensor(mapping))
    return watch_.containers.iterate(mapping);
  PyTypeObject* const type = Py_TYPE(mapping);
  PyObject *const name = interned("keys"), *const keys = find_in_type(type, "keys");
  PyObject* const dict = guards::instance_dict(mapping);
  const bool is_of_storage = PyDict_Check(mapping) && (keys == find_in_type(&PyDict_Type, "keys") ||
                                                       keys == find_in_type(&PyODict_Type, "keys"));
  const bool is_shadowed = dict && PyDict_GetItemString(dict, "keys");
  if (!name || has_own_lookup(type) || is_shadowed || !(PyFunction_Check(keys) || is_of_storage))
    return abandon(Break::iteration_not_understood, mapping);
  if (!watch_.attributes.attribute(mapping, name)) return false;
  const bool gets_by_python = watch_.classes.special_function(mapping, "__getitem__");
  const bool gets =
      gets_by_python || (PyDict_Check(mapping) && watch_.classes.acts_as_builtin(mapping, "__getitem__"));
  if (!gets) return abandon(Break::iteration_not_understood, mapping);
  if (PyDict_Check(mapping)) {
    const bool reads_storage = is_of_storage || !gets_by_python;
    if (reads_storage && !values_.open(mapping)) return abandon(Break::dict_unguarded, mapping);
    if (reads_storage) values_.iterate_dict(mapping);
    if (!watch_.classes.special_function(mapping, "__missing__") &&
        !watch_.classes.keep_special(mapping, {"__missing__"}))
      return false;
  }
  values_.keep_protocols(mapping);
  activity() = {};
  activity().asks_keys = is_of_storage ? nullptr : keys;
  return allow(Entry::known);
}

bool Iterables::gives_keys(PyObject* keys) const {
  return watch_.containers.iterate(keys);
}

bool Iterables::update(PyObject* dict, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* callee = run_.callee ? *run_.callee : nullptr;
  const bool is_on_stack = callee && Py_IS_TYPE(callee, &PyMethodDescr_Type);
  const bool has_keys = is_asked_for_keys(arguments[0], PyODict_Check(dict));
  PyObject* form = values_.tensors().stand_in_for(interned(has_keys ? "dict.update" : "dict.update of pairs"));
  if (!is_on_stack || !form) return abandon(Break::dict_unguarded, arguments[0]);
  if (!values_.is_known(callee)) values_.make_constant(callee);
  if (!watch_.stand_ins.put_stand_in(callee, form)) return false;
  std::vector<PyObject*> all{dict};
  all.insert(all.end(), arguments, arguments + count);
  return watch_.calls.call(form, all.data(), count + 1);
}

}  // namespace braze::interpreter
