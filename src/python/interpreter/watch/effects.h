// python/interpreter/watch/effects.h: what a watched run changed of the objects that existed before it.
//
// The run changes them for real, so that all that it reads is as it should be. Before the first change of an
// object what it holds is noted down (changes.h), and undo() puts that back: a capture leaves no trace, and the
// replay repeats the changes. What is logged is storage alone: entries of dicts (of instances, modules and classes
// too), slots, cells, lists, sets and context variables; that nothing of the user's runs when they change is for
// the watcher to say. Other threads see none of it: whenever the GIL is let go of, everything is as it was
// before the run, and afterwards the changes are put back, unless another thread has changed the same objects.
//
//   effects.store_entry(globals, name, value);          // before STORE_GLOBAL runs
//   effects.wrote(globals, name)                        // true: what is read there needs no guard
//   for (const Effect& effect : effects.log()) ...      // becomes the effects of a recipe
//   effects.undo();
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/guards/recipe.h"
#include "python/guards/ref.h"
#include "python/interpreter/watch/changes.h"
#include "python/interpreter/watch/held_locks.h"

namespace braze::interpreter {

/// Operands as RecipeBuilder::effect wants them; those that the kind does not have are null.
struct Effect {
  guards::EffectKind kind;
  guards::Ref target, key = {}, value = {};
  std::vector<guards::Ref> rest = {};  ///< Further arguments of a call.
};

/// What holds objects, and may change.
enum class Storage : uint8_t { list, dict, set, cell, class_, slot, deque };

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
  /// The dict is going to make an entry itself; store_entry() tells which, afterwards.
  void will_fill(PyObject* dict) { change(dicts_, dict); }
  /// The entry must be there.
  void delete_entry(PyObject* dict, PyObject* key, PyObject* owner = nullptr);
  void clear_dict(PyObject* dict);
  void store_slot(PyObject* object, PyObject* descriptor, PyObject* value);
  void store_cell(PyObject* cell, PyObject* value);
  /// An attribute of a class, by type.__setattr__. Without a value it is deleted; it was not there before the call.
  void store_in_class(PyObject* type, PyObject* name, PyObject* value);
  /// Before set.`method`(argument), which is to be repeated. \param argument  null if there is none.
  void change_set(PyObject* set, const char* method, PyObject* argument);
  /// Before deque.`method`(arguments), which is to be repeated. The arguments do not change any more.
  void change_deque(PyObject* deque, const char* method, const std::vector<PyObject*>& arguments);
  /// Before OrderedDict.move_to_end(dict, key, last).
  void move_to_end(PyObject* dict, PyObject* key, PyObject* last);
  /// `function` is called by a replay; the run does without. Names, if any, are a constant.
  void call(PyObject* function, PyObject* callable, PyObject* names, const std::vector<PyObject*>& arguments);
  /// `tensor.data = value`, which a replay does; the run does without.
  void store_data(PyObject* tensor, PyObject* name, PyObject* value);
  /// A builtin iterator gives an item, or comes to its end. Its own share alone: not that of those within it.
  void advance(PyObject* iterator, bool ends);
  /// The whole of what advance() was told of: an iterator, and those within it, are asked for the next item.
  void ask_next(PyObject* iterator);
  const std::unordered_map<PyObject*, IteratorChange*>& iterators() const { return iterators_; }
  /// Of generators of random numbers, which no entry of the log tells of.
  RandomDraws& draws() { return draws_ ? *draws_ : *(draws_ = &add<RandomDraws>()); }
  HeldLocks& locks() { return locks_; }
  void append(PyObject* list, PyObject* value);
  /// Not seen as a change: the number in a container that the run has not changed yet becomes what stands for it.
  void put_stand_in(PyObject* container, PyObject* key, Py_ssize_t index, PyObject* stand_in);
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
  /// A list, dict, set or deque.
  bool changed(PyObject* container) const;
  /// Whether a set held that very object before the run; nothing if another one of its items hashes alike.
  std::optional<bool> held_before(PyObject* set, PyObject* item, Py_hash_t hash) const;
  /// A list or an exact dict of what a changed list, deque or dict held before the call.
  PyObject* before(PyObject* container) const;
  /// Those from which entries were removed, or whose order was changed.
  std::vector<PyObject*> rearranged_dicts() const;

  /// Some of that kind has changed.
  bool changed(Storage kind) const;
  /// The class had nothing of that name before the call, and the run has put something there.
  bool is_new_in_class(PyObject* type, PyObject* name) const;

  /// There is something to hide.
  bool is_live() const { return !changes_.empty() && !is_hidden_; }
  /// The GIL is about to be released: everything is as it was before the run, for other threads to see.
  void hide();
  /// Puts the run's changes back. False: another thread has changed some of what the run has; it stays as that
  /// thread left it, and there are no effects any more.
  bool show();

  /// How many changes there have been so far, those too that take the place of earlier ones.
  size_t count() const { return log_.count + (draws_ ? draws_->count() : 0); }
  /// The changes in order. Before undo().
  std::vector<Effect> log() const;
  /// Puts everything back as it was. Afterwards there are no effects.
  void undo();

  friend void store_in_list(Effects& effects, PyObject* list, PyObject* index, PyObject* value);
  friend std::vector<PyObject*> stored_at(const Effects& effects, PyObject* list);

 private:
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
  template <typename Kind>
  Kind& change(std::unordered_map<PyObject*, Kind*>& all, PyObject* object);
  template <typename Kind, typename... Arguments>
  Kind& add(Arguments... arguments) {
    auto made = std::make_unique<Kind>(arguments...);
    Kind& change = *made;
    changes_.push_back(std::move(made));
    return change;
  }
  void store(Place place, Effect effect);
  void forget();

  /// In order; what takes the place of an earlier one is counted alone.
  struct Log : std::vector<Effect> {
    void note(Effect effect);
    size_t count = 0;
  } log_;
  /// Number in log_ of the last effect, which holds the key.
  std::unordered_map<Place, size_t, PlaceHash> written_;
  std::vector<PyObject*> rearranged_lists_;          ///< They get the contents that they have in the end.
  std::unordered_set<PyObject*> lists_stored_into_;  ///< Only compared.
  HeldLocks locks_;
  std::vector<Setting> settings_;  ///< Of context variables, not reset yet.

  std::vector<std::unique_ptr<Change>> changes_;  ///< In the order in which they began.
  // The same by object, which the change holds.
  std::unordered_map<PyObject*, DictChange*> dicts_;
  std::unordered_map<PyObject*, ListChange*> lists_;
  std::unordered_map<PyObject*, DequeChange*> deques_;
  std::unordered_map<PyObject*, CellChange*> cells_;
  std::unordered_map<PyObject*, SetChange*> sets_;
  std::unordered_map<PyObject*, IteratorChange*> iterators_;
  std::vector<ClassChange*> classes_;
  RandomDraws* draws_ = nullptr;
  bool changed_slots_ = false;
  bool is_hidden_ = false;
};

/// Before `list[index] = value`, at a place that there is.
void store_in_list(Effects& effects, PyObject* list, PyObject* index, PyObject* value);
/// The indices at which that was done, in order; none where the list is replaced as a whole.
std::vector<PyObject*> stored_at(const Effects& effects, PyObject* list);

}  // namespace braze::interpreter
