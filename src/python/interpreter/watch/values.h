// python/interpreter/watch/values.h: what a watched run knows about the objects that it meets.
//
// Every object is one of three: a *scalar*, guarded by value when it is loaded; *sourced*, that is, it existed
// before the call and was reached over a path that guards pin down; or *made* during the run. Provenance goes by
// identity: objects are found by address, whatever slot or container they came from. What is none of the three was
// reached over a path that nobody followed, and nothing may be done with it.
#pragma once

#include <Python.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/guards/guard.h"
#include "python/interpreter/ref.h"
#include "python/interpreter/watch/array_memory.h"
#include "python/interpreter/watch/drops.h"
#include "python/interpreter/watch/effects.h"
#include "python/interpreter/watch/numbers.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::interpreter {

class Values {
 public:
  Values(guards::GuardSet& guards, TensorWorld& tensors) : guards_(guards), tensors_(tensors) {}

  /// `value` was read from `source`: adds what must hold for it to be the same on later calls. False: nothing that
  /// guards can hold on to.
  bool learn(PyObject* value, const guards::Source* source);
  /// The contents of a closure cell that existed before the call come from `source`.
  void learn_cell(PyObject* cell, const guards::Source* contents);
  /// A dict that stands for the attributes of a sourced object.
  void learn_as(PyObject* object, const guards::Source* source);
  /// A scalar that stands for what is read from `source` (null: for what the run computed) and lives as long as
  /// the run.
  void hold_stand_in(guards::Ref scalar, const guards::Source* source);
  /// Made by this run; does nothing for what is known otherwise.
  void make(PyObject* value);
  /// A constant of code: tuples, frozensets, code objects and all in them.
  void make_constant(PyObject* value);

  /// A class that the run has made of constants. While it stays with the run, a replay does without; what holds it
  /// is not rebuilt.
  void make_class(PyObject* type) {
    make_constant(type);
    own_classes_.insert(type);
  }
  bool is_own_class(PyObject* value) const { return own_classes_.contains(value); }

  /// Classes that this call has made natively, as each call does: their identity is no guard's business, and
  /// neither are their instances.
  /// \param classes  weak references.
  void expect_anew(const std::vector<guards::Ref>& classes) { made_anew_ = &classes; }

  /// Given to make_constant(): the same object in every run.
  bool is_constant(PyObject* value) const { return constants_.contains(value); }
  /// It must be this very object on later calls: its address decides something. False: of unknown origin.
  bool pin(PyObject* value);

  /// The address of an object: nothing that a replay could hand on.
  void note_address(PyObject* number) {
    if (addresses_.insert(number).second) held_.push_back(guards::Ref::borrow(number));
  }
  bool is_address(PyObject* number) const { return addresses_.contains(number); }

  bool is_made(PyObject* value) const { return made_.contains(value); }
  /// Where a scalar was read, whose equals may be other objects; empty if it was computed.
  std::vector<const guards::Source*> scalar_sources(PyObject* scalar) const;
  /// Null for what was made or is unknown.
  const guards::Source* source_of(PyObject* value) const;
  bool is_known(PyObject* value) const;

  /// Guards the length or keys of a sourced builtin container and learns its items, as they were before the call.
  /// True for what needs it not.
  bool open(PyObject* container);
  /// Something may go through the entries of a dict, now and later.
  void iterate_dict(PyObject* dict) { iterated_.insert(dict); }
  bool is_iterated(PyObject* dict) const { return iterated_.contains(dict); }
  /// C code may ask the class of the object for any special method: it keeps having or lacking each.
  void keep_protocols(PyObject* value);
  /// Whether this object is another one has been asked for: replays must tell the same objects apart.
  void tell_apart(PyObject* object) {
    if (source_of(object)) told_apart_.insert(object);
  }
  /// Iterating over the set gives the same order in every run: it was made by this one, of scalars, or guards say
  /// so of an older one that the run has not changed. Equal sets may differ in order, and objects hash by address.
  bool has_known_order(PyObject* set);
  /// Entry `key` of a sourced exact dict: its value, or that it is not there.
  bool look_up(PyObject* dict, PyObject* key);
  /// Whether an object that hashes by address is in a sourced exact set.
  bool look_up_member(PyObject* set, PyObject* item);

  /// Two objects that the run told apart, one of which it changed, must not be one object at a replay. Once, at the
  /// end, before the effects are undone.
  void guard_aliasing();

  /// Numbers that stand for those of the program.
  Numbers& numbers() { return numbers_; }
  const Numbers& numbers() const { return numbers_; }
  /// The memory of arrays of NumPy's.
  ArrayMemory& arrays() { return arrays_; }
  /// What the run lets go of.
  Drops& drops() { return drops_; }
  /// What the run changed of what existed before.
  Effects& effects() { return effects_; }
  guards::GuardSet& guards() { return guards_; }
  guards::SourceTable& sources() { return guards_.sources(); }
  TensorWorld& tensors() { return tensors_; }
  const TensorWorld& tensors() const { return tensors_; }

 private:
  bool learn_given(PyObject* value, const guards::Source* source);
  struct Known {
    const guards::Source* source;
    bool opened = false;
  };
  bool open_items(PyObject* container, const guards::Source* source);
  bool learn_item(PyObject* container, PyObject* key, Py_ssize_t index, const guards::Source* source);
  bool open_sequence(PyObject* sequence, const guards::Source* source);
  bool open_dict(PyObject* dict, const guards::Source* source);

  guards::GuardSet& guards_;
  TensorWorld& tensors_;
  std::unordered_map<PyObject*, Known> known_;
  std::unordered_map<PyObject*, std::vector<const guards::Source*>> scalars_;
  std::unordered_set<PyObject*> made_;
  std::unordered_set<PyObject*> addresses_;
  std::unordered_set<PyObject*> constants_;    ///< Some of made_.
  std::unordered_set<PyObject*> own_classes_;  ///< Some of constants_.
  std::unordered_set<PyTypeObject*> protocols_kept_;
  std::unordered_set<PyObject*> told_apart_;  ///< Sourced ones.
  std::unordered_set<PyObject*> iterated_;    ///< Dicts. Only compared.
  const std::vector<guards::Ref>* made_anew_ = nullptr;
  Effects effects_;
  Numbers numbers_{*this};
  ArrayMemory arrays_{*this};
  Drops drops_{*this};
  std::vector<guards::Ref> held_;  ///< Keys of known_: an address must not be used again.
};

/// Where the class of an object comes from.
const guards::Source* type_source(Values& values, PyObject* object);

/// How many items the iterators that the run has moved on must have left. Once, at the end, before the effects are
/// undone.
void guard_iterators(Values& values);

/// The builtin container type whose storage `value` has, as an instance of it or of a subclass; null if it has
/// none.
PyTypeObject* storage_type(PyObject* value);
/// list, tuple, dict, OrderedDict, set or frozenset, and no subclass.
bool is_builtin_container(PyObject* value);
bool is_exact_dict(PyObject* value);
/// An instance of a class that Python code derived from int, float, complex, str or bytes.
bool is_derived_scalar(PyObject* value);
/// The method of the builtin class that such an instance has under this name; null if its class has another one.
PyObject* derived_method(PyObject* value, const char* name);
/// What such an instance finds in a dict, if it hashes and compares as the builtin class does. Null for all else.
guards::Ref exact_key(PyObject* key);
/// What a types.MappingProxyType stands for, borrowed.
PyObject* mapping_of_proxy(PyObject* proxy);

}  // namespace braze::interpreter
