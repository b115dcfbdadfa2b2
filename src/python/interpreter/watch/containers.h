// python/interpreter/watch/containers.h: items and entries: subscripts, `in`, stores, iteration, keys.
#pragma once

#include <string_view>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Items and entries of containers.
class Containers final : Domain {
 public:
  using Domain::Domain;

  bool subscript(PyObject* container, PyObject* key);
  bool contains(PyObject* container, PyObject* item);
  bool store_item(PyObject* container, PyObject* key, PyObject* value);
  bool delete_item(PyObject* container, PyObject* key);
  /// In any way but an append. What the list holds in the end depends on what it held before; each of its items may
  /// be dropped.
  bool change_list(PyObject* list);
  /// To a list that an instruction builds. One that existed before is no further looked at.
  bool append(PyObject* list, PyObject* item);
  /// Of an older list. Where C code alone goes through the items, they are appended one by one.
  bool extend(PyObject* list, PyObject* iterable);
  bool iterate(PyObject* iterable);
  /// A key that a dict or set of the run's own is asked for, or given: by value, by address, or as Python code
  /// says, which is watched.
  bool hashes(PyObject* key);
  /// hash() of it: the same number in every run.
  bool hash_of(PyObject* object);
  /// An entry of a dict, which is there, or is not.
  bool look_up(PyObject* dict, PyObject* key);
  /// set.add() and its like. All that they read is guarded, so that a replay that does the same changes the order
  /// of iteration in the same way.
  bool change_set(std::string_view name, PyObject* set, PyObject* const* arguments, Py_ssize_t count);
  bool search_list(PyObject* list, PyObject* item);
  bool update_set(PyObject* const* arguments, Py_ssize_t count);
  /// dict.update() with a dict, pairs, or keywords.
  bool update_dict(PyObject* dict, PyObject* const* arguments, Py_ssize_t count);
  /// list.sort() compares the items, or what the key function says of them.
  bool sort(PyObject* list, PyObject* const* arguments, Py_ssize_t count);
  /// A method that changes a container that existed before the call.
  bool change_by_method(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  /// A slot of a builtin container, called on it or on an instance of a subclass.
  bool call_container_slot(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);

 private:
  bool store_in_list(PyObject* list, PyObject* index, PyObject* value);
  bool is_own_item(PyObject* list, PyObject* key) const;
  bool add_object(PyObject* set, PyObject* item);
  bool entry_by_tensor(PyObject* dict, PyObject* key);
  bool missing_entry(PyObject* dict, PyObject* key);
  bool hashes_referent(PyObject* reference);
  bool has_lasting_hash(PyObject* object);
  /// Likewise, of an older dict, and by C code alone.
  bool look_up_plain(PyObject* dict, PyObject* key);
  bool has_plain_entry(PyObject* dict, PyObject* key);
  bool asks_keys(PyObject* dict, PyObject* key);
  bool tell_apart(PyObject* own, PyObject* asked);
  bool asks_items(PyObject* container, PyObject* item);
  bool asks_members(PyObject* set, PyObject* item);
  bool store_entry(PyObject* dict, PyObject* key, PyObject* value);
  bool delete_entry(PyObject* dict, PyObject* key);
  bool pop_item(PyObject* dict, PyObject* const* arguments, Py_ssize_t count);
};

}  // namespace braze::interpreter
