// python/interpreter/watch/effects.h: what a watched run changed of the objects that existed before it.
//
// The run changes them for real, so that all that it reads is as it should be. Before the first change of a
// container its contents are noted down, and undo() puts them back: a capture leaves no trace, and the replay
// repeats the changes. What is logged is storage alone: entries of dicts (of instances and modules too), slots,
// cells, lists and context variables; that nothing of the user's runs when they change is for the watcher to say.
//
//   effects.store_entry(globals, name, value);          // before STORE_GLOBAL runs
//   effects.wrote(globals, name)                        // true: what is read there needs no guard
//   for (const Effect& effect : effects.log()) ...      // becomes the effects of a recipe
//   effects.undo();
#pragma once

#include <Python.h>

#include <unordered_map>
#include <vector>

#include "python/guards/recipe.h"
#include "python/guards/ref.h"

namespace braze::interpreter {

/// Operands as RecipeBuilder::effect wants them; those that the kind does not have are null.
struct Effect {
  guards::EffectKind kind;
  guards::Ref target, key = {}, value = {};
};

class Effects {
 public:
  Effects() = default;
  Effects(const Effects&) = delete;
  Effects& operator=(const Effects&) = delete;
  ~Effects() { undo(); }

  // Each is called before the change happens.

  /// \param dict   a dict or OrderedDict whose keys are plain.
  /// \param owner  null, or the object whose instance dict it is.
  void store_entry(PyObject* dict, PyObject* key, PyObject* value, PyObject* owner = nullptr);
  /// The entry must be there.
  void delete_entry(PyObject* dict, PyObject* key, PyObject* owner = nullptr);
  void clear_dict(PyObject* dict);
  void store_slot(PyObject* object, PyObject* descriptor, PyObject* value);
  void store_cell(PyObject* cell, PyObject* value);
  void append(PyObject* list, PyObject* value);
  /// Any other change of a list: the replay gives it the contents that it has in the end.
  void change_list(PyObject* list);

  /// After a context variable was set, with the token that set() gave.
  void set_variable(PyObject* variable, PyObject* token);
  /// Before reset(). False: the token is not that of the latest set().
  bool reset_variable(PyObject* variable, PyObject* token);
  /// The variable has a value that the run gave it.
  bool is_set(PyObject* variable) const;

  /// Entry `key` of a dict, slot `key` (the descriptor) of an object, or the contents of a cell (key null) are of
  /// this run, or were deleted by it.
  bool wrote(PyObject* storage, PyObject* key) const;
  bool changed(PyObject* container) const { return snapshots_.contains(container); }
  /// What a changed container held before the call: items of a list; keys and values, alternating, of a dict.
  const std::vector<guards::Ref>& before(PyObject* container) const { return snapshots_.at(container).items; }
  /// Containers that were changed, instance dicts included.
  std::vector<PyObject*> containers() const;

  bool changed_cells() const;
  bool changed_slots() const { return !slots_.empty(); }

  bool empty() const { return log_.empty() && changed_lists_.empty() && settings_.empty(); }
  /// The changes in order. Before undo().
  std::vector<Effect> log() const;
  /// Puts everything back as it was. Afterwards there are no effects.
  void undo();

 private:
  struct Snapshot {
    guards::Ref container;
    std::vector<guards::Ref> items;
    bool cleared = false;
  };
  struct Slot {
    guards::Ref object, descriptor, value;
  };
  struct Setting {
    guards::Ref variable, token;
  };
  struct Place {
    PyObject *storage, *key;
    bool operator==(const Place& other) const;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };
  Snapshot& note(PyObject* container);
  void store(Place place, Effect effect);
  void restore_dict(const Snapshot& snapshot);

  std::vector<Effect> log_;
  /// Number in log_ of the last effect, which holds the key.
  std::unordered_map<Place, size_t, PlaceHash> written_;
  std::unordered_map<PyObject*, Snapshot> snapshots_;
  std::vector<Slot> slots_;
  std::vector<PyObject*> changed_lists_;
  std::vector<Setting> settings_;  ///< Of context variables, not reset yet.
};

}  // namespace braze::interpreter
