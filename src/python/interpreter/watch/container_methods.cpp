// python/interpreter/watch/container_methods.cpp: methods of builtin containers, and their slots called by name.
//
//   what the run made          may be changed
//   what existed before        may be read, guarded; its changes are effects
#include <algorithm>
#include <string>
#include <string_view>

#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/containers.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// Slots of builtin containers that only read, and give what C code makes of it.
const Names& reading_slots() {
  static const Names names = {"__add__", "__contains__", "__eq__", "__ge__",  "__gt__",       "__le__",  "__lt__",
                              "__mul__", "__ne__",       "__or__", "__and__", "__reversed__", "__rmul__"};
  return names;
}

/// Scalars, and tuples of such, hash and compare by value in every run. A NaN does so by its address.
bool is_plain_item(PyObject* item) {
  if (!PyTuple_CheckExact(item)) return guards::is_scalar(item) && !guards::is_nan(item);
  PyObject** const items = PySequence_Fast_ITEMS(item);
  return std::all_of(items, items + PyTuple_GET_SIZE(item),
                     [](PyObject* one) { return guards::is_scalar(one) && !guards::is_nan(one); });
}

}  // namespace

bool Containers::sort(PyObject* list, PyObject* const* arguments, Py_ssize_t count) {
  return watch_.given.absorb_given(&list, 1) && watch_.given.absorb_given(arguments, count) && change_list(list) &&
         looks() && allow(Entry::known);
}

bool Containers::change_set(std::string_view name, PyObject* set, PyObject* const* arguments, Py_ssize_t count) {
  static const Names names = {"add",
                              "discard",
                              "remove",
                              "clear",
                              "update",
                              "difference_update",
                              "intersection_update",
                              "symmetric_difference_update"};
  if (!names.contains(name) || count != (name == "clear" ? 0 : 1) || run_.keyword_names)
    return abandon("a set that existed before is changed", set);
  PyObject* argument = count ? arguments[0] : nullptr;
  if (name == "add" && values_.source_of(argument) && !guards::is_scalar(argument))
    return add_object(set, argument);
  if (!values_.open(set)) return abandon("a set that cannot be guarded", set);
  const bool is_item = name == "add" || name == "discard" || name == "remove";
  if (is_item && (!is_plain_item(argument) || !values_.is_known(argument) || !values_.open(argument)))
    return abandon("a set of objects is changed", set);
  if (argument && !is_item) {
    const bool is_known = values_.is_known(argument) && is_data(argument) && values_.open(argument);
    if (!is_known || PyDict_Check(argument)) return abandon("a set of objects is changed", set);
  }
  if (name == "remove" && PySet_Contains(set, argument) != 1) return true;  // A KeyError.
  values_.effects().change_set(set, std::string(name).c_str(), argument);
  return true;
}

/// An older object, which hashes by its address: its place in the order of the set means nothing.
bool Containers::add_object(PyObject* set, PyObject* item) {
  if (!values_.look_up_member(set, item) || !hashes(item)) return abandon("a set of objects is changed", set);
  if (PySet_Contains(set, item) != 1) values_.effects().change_set(set, "add", item);
  return true;
}

/// set.update() of a set that the run has made, with objects that its items are compared with.
bool Containers::update_set(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    const bool is_sequence = PyList_CheckExact(arguments[i]) || PyTuple_CheckExact(arguments[i]);
    if (!is_sequence) {
      if (!absorb_all(arguments + i, 1, nullptr)) return false;
      continue;
    }
    if (!values_.is_known(arguments[i]) || !values_.open(arguments[i]))
      return abandon("a container that cannot be guarded", arguments[i]);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(arguments[i]); ++k)
      if (!hashes(PySequence_Fast_GET_ITEM(arguments[i], k))) return false;
  }
  return allow_made_result(Entry::known);
}

/// list.remove(), index() and count() of a list of the run's own: each item may be asked whether it is equal.
bool Containers::search_list(PyObject* list, PyObject* item) {
  Entry entry = Entry::none;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    if (!watch_.operators.comparison(PyList_GET_ITEM(list, i), item, Py_EQ)) return false;
    entry = std::max(entry, activity().entry);
  }
  return allow_made_result(entry);
}

/// dict.popitem() of what existed before, whose keys and their order are guarded.
bool Containers::pop_item(PyObject* dict, PyObject* const* arguments, Py_ssize_t count) {
  if (!values_.open(dict)) return abandon("a dict that cannot be guarded", dict);
  const bool from_front = count == 1 && PyObject_Not(arguments[0]) == 1;
  if (count > 1 || (count == 1 && !PyBool_Check(arguments[0]))) return abandon("a dict is changed", dict);
  Ref key;
  guards::for_each_key(dict, [&](PyObject* each) {
    key = Ref::borrow(each);
    return !from_front;
  });
  if (!key) return true;  // A KeyError.
  if (!lets_go_of_entry(dict, key.get())) return false;
  values_.effects().delete_entry(dict, key.get());
  return allow_made_result();
}

bool Containers::update_dict(PyObject* dict, PyObject* const* arguments, Py_ssize_t count) {
  const Py_ssize_t named = run_.keyword_names ? PyTuple_GET_SIZE(run_.keyword_names) : 0, given = count - named;
  if (given > 1) return true;  // A TypeError.
  PyObject* entries = given ? arguments[0] : nullptr;
  const bool is_derived = entries && values_.is_known(entries) && !is_builtin_container(entries) &&
                          !PyODict_Check(dict) && watch_.iterables.is_read_as_dict(entries);
  const bool gives_pairs = entries && values_.is_known(entries) && !PyDict_Check(entries) &&
                           !is_builtin_container(entries) && !guards::is_scalar(entries) && run_.callee;
  if (gives_pairs) return watch_.iterables.update(dict, arguments, count);
  if (entries &&
      (!values_.is_known(entries) || !(is_builtin_container(entries) || is_derived) || !values_.open(entries)))
    return abandon("a dict that cannot be guarded", entries);
  if (entries && (is_derived || is_exact_dict(entries))) {
    const bool all = guards::for_each_key(entries, [&](PyObject* key) {
      return store_entry(dict, key, guards::is_plain_key(key) ? guards::entry_of_key(entries, key) : nullptr);
    });
    if (!all) return false;
  } else if (entries) {
    if (PyAnySet_Check(entries)) return abandon("a dict of the items of a set", entries);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(entries); ++i) {
      PyObject* pair = PySequence_Fast_GET_ITEM(entries, i);
      const bool is_pair = (PyTuple_CheckExact(pair) || PyList_CheckExact(pair)) && values_.open(pair) &&
                           PySequence_Fast_GET_SIZE(pair) == 2;
      if (!is_pair) return abandon("a dict of what are no pairs", pair);
      if (!store_entry(dict, PySequence_Fast_GET_ITEM(pair, 0), PySequence_Fast_GET_ITEM(pair, 1))) return false;
    }
  }
  for (Py_ssize_t i = 0; i < named; ++i)
    if (!store_entry(dict, PyTuple_GET_ITEM(run_.keyword_names, i), arguments[given + i])) return false;
  return true;
}

bool Containers::change_by_method(std::string_view name, PyObject* self, PyObject* const* arguments,
                                  Py_ssize_t count) {
  Effects& effects = values_.effects();
  if (PyList_Check(self)) {
    if (name == "sort") return sort(self, arguments, count);
    if (name == "remove" && count == 1 && values_.open(self) && is_data(self) && is_data(arguments[0]))
      return absorb_all(arguments, count, self) && change_list(self);
    if (name == "append" && count == 1) {
      effects.append(self, arguments[0]);
      return true;
    }
    if (name == "extend" && count == 1) return extend(self, arguments[0]);
    const bool moves = name == "insert" || name == "pop" || name == "clear" || name == "reverse";
    if (moves) return change_list(self) && (name == "insert" || absorb_all(arguments, count, self));
  }
  if (PySet_CheckExact(self) && count == 1 && guards::is_scalar(arguments[0]) && values_.open(self)) {
    // What changes nothing; any change would be one of the order too.
    const bool is_in = PySet_Contains(self, arguments[0]) == 1;
    if (is_in ? name == "add" : name == "discard") return true;
  }
  if (PySet_CheckExact(self)) return change_set(name, self, arguments, count);
  if (PyDict_Check(self)) {
    if (name == "__setitem__" && count == 2) return store_entry(self, arguments[0], arguments[1]);
    if (name == "__delitem__" && count == 1) return delete_entry(self, arguments[0]);
    if (name == "pop" && count >= 1) return delete_entry(self, arguments[0]);
    if (name == "setdefault" && count >= 1) {
      if (!look_up_plain(self, arguments[0])) return false;
      if (guards::entry_of_key(self, arguments[0])) return true;
      return store_entry(self, arguments[0], count > 1 ? arguments[1] : Py_None);
    }
    if (name == "clear") {
      const guards::Source* source = values_.source_of(self);
      if (source && !lets_go(self, source, true)) return false;
      effects.clear_dict(self);
      return true;
    }
    if (name == "update") return update_dict(self, arguments, count);
    if (name == "popitem") return pop_item(self, arguments, count);
    if (name == "move_to_end" && PyODict_CheckExact(self) && count >= 1 && count <= 2) {
      if (!look_up_plain(self, arguments[0])) return false;
      if (!guards::entry_of_key(self, arguments[0])) return true;  // A KeyError.
      effects.move_to_end(self, arguments[0], count > 1 ? arguments[1] : Py_True);
      return true;
    }
  }
  return abandon("a container that existed before is changed", self);
}

bool Containers::call_container_slot(std::string_view name, PyObject* self, PyObject* const* arguments,
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
  if (name == "__getitem__" && count == 1 && is_dict && has_plain_entry(self, arguments[0]))
    return look_up(self, arguments[0]);
  if (abandoned()) return false;
  if (name == "__getitem__" && count == 1 && !is_dict)
    return (operand(arguments[0], "an index") && values_.open(self) && allow_made_result()) ||
           abandon("a container that cannot be guarded", self);
  if (name == "__contains__" && count == 1 && is_dict) return look_up(self, arguments[0]);
  if (name == "__iter__" && is_dict) values_.iterate_dict(self);
  if ((name == "__len__" || name == "__iter__") && count == 0 && !PyAnySet_Check(self))
    return (values_.open(self) && allow_made_result()) || abandon("a container that cannot be guarded", self);
  if (reading_slots().contains(name) && count <= 1)
    return absorb_all(&self, 1, nullptr) && absorb_all(arguments, count, nullptr) && allow_made_result();
  return abandon("a slot that is not understood", self);
}

}  // namespace braze::interpreter
