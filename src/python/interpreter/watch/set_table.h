// python/interpreter/watch/set_table.h: the table of a set as it was, to be put back.
//
// Equal sets may differ in the order of iteration, which comes from what was added and removed before. So a set
// whose changes are undone gets back its table entry by entry, those of removed items included
// (Objects/setobject.c).
#pragma once

#include <Python.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "python/guards/ref.h"

namespace braze::interpreter {

class SetTable {
 public:
  /// Notes down the table of a set.
  explicit SetTable(PyObject* set) : set_(guards::Ref::borrow(set)) {
    const auto* object = reinterpret_cast<PySetObject*>(set);
    fill_ = object->fill;
    used_ = object->used;
    finger_ = object->finger;
    entries_.assign(object->table, object->table + object->mask + 1);
    for (const setentry& entry : entries_)
      if (is_item(entry)) items_.push_back(guards::Ref::borrow(entry.key));
  }

  /// The same items in the same places.
  bool operator==(const SetTable& other) const {
    return fill_ == other.fill_ && used_ == other.used_ &&
           std::ranges::equal(entries_, other.entries_, [](const setentry& a, const setentry& b) {
             return a.key == b.key && a.hash == b.hash;
           });
  }

  PyObject* set() const { return set_.get(); }

  /// Whether that very object is in it. Nothing if another one hashes alike: they would be compared.
  std::optional<bool> holds(PyObject* item, Py_hash_t hash) const {
    bool found = false;
    for (const setentry& entry : entries_) {
      if (is_item(entry) && entry.hash == hash && entry.key != item) return std::nullopt;
      found |= entry.key == item;
    }
    return found;
  }

  /// \returns false if there is no memory for the table.
  bool restore() {
    auto* object = reinterpret_cast<PySetObject*>(set_.get());
    if (PySet_Clear(set_.get()) < 0) return false;
    setentry* table = object->smalltable;  // That of an empty set.
    if (entries_.size() > PySet_MINSIZE) {
      table = PyMem_New(setentry, entries_.size());
      if (!table) return false;
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      table[i] = entries_[i];
      if (is_item(entries_[i])) Py_INCREF(entries_[i].key);
    }
    object->table = table;
    object->mask = static_cast<Py_ssize_t>(entries_.size()) - 1;
    object->fill = fill_;
    object->used = used_;
    object->finger = finger_;
    return true;
  }

 private:
  /// Neither free nor left by an item that was removed, which has no hash.
  static bool is_item(const setentry& entry) { return entry.key && entry.hash != -1; }

  guards::Ref set_;
  Py_ssize_t fill_, used_, finger_;
  std::vector<setentry> entries_;
  std::vector<guards::Ref> items_;  ///< Keeps them alive.
};

}  // namespace braze::interpreter
