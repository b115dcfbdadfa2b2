// python/interpreter/watch/changes.h: what a run changed in one object, to be taken back and made again.
//
// Each is made before the first change. take_back() leaves the object as it was before the run, and notes down how
// the run has left it; make_again() puts that there. Several may be of one place: they are taken back in reverse,
// and what lies there when all are is noted by note_left(). Only what the run has touched is moved: the entries of
// a dict that it stored and the items that it appended, unless it has changed their order.
#pragma once

#include <Python.h>

#include <memory>
#include <utility>
#include <vector>

#include "python/guards/iterators.h"
#include "python/guards/random_state.h"
#include "python/guards/ref.h"
#include "python/interpreter/watch/set_table.h"

namespace braze::interpreter {

class Change {
 public:
  Change() = default;
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  virtual ~Change() = default;

  virtual void take_back() = 0;
  /// All changes are taken back now.
  virtual void note_left() {}
  /// Nobody has changed anything there since then.
  virtual bool is_taken_back() const = 0;
  virtual void make_again() = 0;
};

/// Of a dict or OrderedDict with plain keys.
class DictChange final : public Change {
 public:
  explicit DictChange(PyObject* dict);

  /// An exact dict of what it held.
  PyObject* before() const { return before_.get(); }
  /// The entry is stored.
  void touch(PyObject* key);
  /// Entries are removed or moved.
  void rearrange();
  bool is_rearranged() const { return is_rearranged_; }
  /// All entries are removed: what is there is of the run.
  void clear() {
    rearrange();
    was_cleared_ = true;
  }
  bool was_cleared() const { return was_cleared_; }

  void take_back() override;
  void note_left() override;
  bool is_taken_back() const override;
  void make_again() override;

 private:
  guards::Ref dict_, before_;
  guards::Ref touched_;                                       ///< A dict, used as an ordered set of keys.
  std::vector<std::pair<guards::Ref, guards::Ref>> entries_;  ///< Taken back: the touched ones; null: none.
  guards::Ref after_;                                         ///< Taken back, and rearranged: all entries.
  guards::Ref left_;                                          ///< A dict of the entries that count.
  bool is_rearranged_ = false, was_cleared_ = false;
};

class ListChange final : public Change {
 public:
  explicit ListChange(PyObject* list);

  /// A list of what it held.
  PyObject* before() const { return before_.get(); }
  /// In any way but an append.
  void rearrange();
  bool is_rearranged() const { return is_rearranged_; }

  void take_back() override;
  void note_left() override;
  bool is_taken_back() const override;
  void make_again() override;

 private:
  guards::Ref list_, before_;
  guards::Ref after_;  ///< Taken back: what was appended, or all items.
  guards::Ref left_;   ///< All items, if it is rearranged.
  bool is_rearranged_ = false;
};

/// A number in a list, tuple or dict, in the place of which stands another object that is equal to it (numbers.h).
class StandInChange final : public Change {
 public:
  /// \param key  of a dict, a plain one; null: the container is a sequence, and `index` says where.
  StandInChange(PyObject* container, PyObject* key, Py_ssize_t index, PyObject* stand_in);

  void take_back() override;
  void note_left() override { left_ = guards::Ref::borrow(present()); }
  bool is_taken_back() const override { return present() == left_.get(); }
  void make_again() override;

 private:
  PyObject* present() const;  ///< Null: nothing is there.
  void put(PyObject* value);

  guards::Ref container_, key_, number_, stand_in_, left_;
  Py_ssize_t index_;
  bool was_there_ = false;  ///< When it was taken back; else the run has stored something else there.
};

/// Of an exact collections.deque.
class DequeChange final : public Change {
 public:
  explicit DequeChange(PyObject* deque);

  /// A list of what it held.
  PyObject* before() const { return before_.get(); }

  void take_back() override;
  bool is_taken_back() const override;
  void make_again() override;

 private:
  guards::Ref deque_, before_, after_;  ///< Lists of what it holds.
};

class CellChange final : public Change {
 public:
  explicit CellChange(PyObject* cell) : cell_(guards::Ref::borrow(cell)), before_(contents()) {}

  void take_back() override;
  bool is_taken_back() const override { return contents().get() == before_.get(); }
  void make_again() override;

 private:
  guards::Ref contents() const { return guards::Ref::borrow(PyCell_GET(cell_.get())); }

  guards::Ref cell_, before_, after_;
};

/// Of what a member descriptor reads.
class SlotChange final : public Change {
 public:
  SlotChange(PyObject* object, PyObject* descriptor);

  void take_back() override;
  bool is_taken_back() const override;
  void make_again() override;

 private:
  guards::Ref object_, descriptor_, before_, after_;
};

/// Of an attribute of a class.
class ClassChange final : public Change {
 public:
  ClassChange(PyObject* type, PyObject* name);

  PyObject* type() const { return type_.get(); }
  PyObject* name() const { return name_.get(); }
  /// The class had nothing of that name.
  bool is_new() const { return !before_; }

  void take_back() override;
  bool is_taken_back() const override;
  void make_again() override;

 private:
  guards::Ref type_, name_, before_, after_;  ///< Null: nothing.
};

class SetChange final : public Change {
 public:
  explicit SetChange(PyObject* set) : before_(set) {}

  PyObject* set() const { return before_.set(); }
  const SetTable& before() const { return before_; }

  void take_back() override;
  bool is_taken_back() const override { return before_ == SetTable(before_.set()); }
  void make_again() override;

 private:
  SetTable before_;
  std::unique_ptr<SetTable> after_;
};

/// Of how far a builtin iterator has come.
class IteratorChange final : public Change {
 public:
  explicit IteratorChange(PyObject* iterator) : iterator_(guards::Ref::borrow(iterator)), before_(iterator) {}

  /// How many items the run has taken, and whether it has met the end.
  uint32_t taken = 0;
  bool ended = false;

  void take_back() override;
  bool is_taken_back() const override { return guards::IteratorState(iterator_.get()) == before_; }
  void make_again() override;

 private:
  guards::Ref iterator_;
  guards::IteratorState before_;
  std::unique_ptr<guards::IteratorState> after_;
};

/// Of all generators of random numbers.
class RandomDraws final : public Change {
 public:
  /// Before a generator draws one (guards/random_state.h).
  void draw(PyObject* generator, guards::Ref one);
  /// What each has drawn, in order.
  const std::vector<guards::Ref>& of(PyObject* generator) const;
  std::vector<PyObject*> generators() const;
  size_t count() const;

  void take_back() override;
  bool is_taken_back() const override;
  void make_again() override;

 private:
  struct Moved {
    guards::Ref generator;
    guards::RandomState before;
    std::vector<guards::Ref> draws = {};
    std::unique_ptr<guards::RandomState> after = {};
  };
  std::vector<Moved> all_;
};

/// Throws InternalError, in place of a Python error, where something could not be undone.
void must(bool succeeded);
/// The builtin `clear`, whatever a subclass makes of it.
PyObject* clear_of(PyObject* dict);

}  // namespace braze::interpreter
