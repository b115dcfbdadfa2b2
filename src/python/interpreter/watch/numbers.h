// python/interpreter/watch/numbers.h: numbers of a watched run that stand for those of the program.
//
// A number that is only put somewhere (deferred.cpp), or that is an expression over sizes (sizes.h), is an object
// that nothing else in the run is, so that it is known by its address. What it stands for is guarded when somebody
// looks.
#pragma once

#include <Python.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/size.h"
#include "python/guards/ref.h"
#include "python/guards/source.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::interpreter {

class Values;

class Numbers {
 public:
  explicit Numbers(Values& values) : values_(values) {}
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  /// A float or int, read from `source`, that is only put somewhere: its type is guarded now, its value when
  /// somebody looks at it. Gives what stands for it in the run, borrowed: a number that nothing else in the run is.
  /// Null for what must be learnt.
  PyObject* defer(PyObject* number, const guards::Source* source);
  /// A number that is such an expression: an object that nothing else in the run is, borrowed.
  PyObject* make_size(int64_t number, ir::Size size);
  /// A float that is computed of sizes, or varies: likewise.
  PyObject* make_derived(double number, DerivedNumber derived);
  DerivedNumber derived_of(PyObject* value) const;  ///< Null: it is none, or has been specialised.
  /// A number that comes from `source` and was another one at an earlier call becomes a symbol, or a float that
  /// each call reads: what stands for it, borrowed. Null for all else.
  PyObject* vary(PyObject* number, const guards::Source* source);
  /// `value` is what vary() gave for the number that is read from `source`.
  bool stands_for_what_is_at(PyObject* value, const guards::Source* source) const;
  /// Values::learn(), before an instruction that leaves `value` as it is on top: a number that varies is guarded by
  /// its type as yet.
  bool learn_read(PyObject* value, const guards::Source* source);
  /// After the instruction: what stands for `top` there, if it is that number. Null for all else.
  PyObject* take_read(PyObject* top);
  /// What was not left on top is guarded by its value.
  void settle_read();
  /// It is given on as it is, as getattr() does: take_read() is asked after this instruction too.
  void hand_on_read() { hands_on_read_ = true; }
  bool hands_on_read() const { return read_ && hands_on_read_; }
  /// Which number it is has not been looked at, as by hasattr().
  void forget_read() { read_.reset(); }
  const ir::Size* size_of(PyObject* value) const;  ///< Null: it is none, or has been specialised.
  bool was_size(PyObject* value) const { return settled_sizes_.contains(value); }
  /// An int equal to that of the program, but another object.
  bool stands_for_number(PyObject* value) const { return size_of(value) || was_size(value); }
  /// The container is iterated by a `zip` or the like: its sizes are specialised where somebody looks into one of
  /// these.
  void hand_to_iterator(PyObject* container) { handed_.push_back(guards::Ref::borrow(container)); }
  /// Somebody looks at the value, if it is one: it is specialised.
  void settle_size(PyObject* value);
  /// Likewise, and at what a builtin container holds.
  void settle_sizes_within(PyObject* value);
  bool has_deferred() const { return !deferred_.empty(); }
  /// Somebody looks at `value`. Gives the number that it stands for, borrowed; null if it stands for none.
  PyObject* settle(PyObject* value);
  /// Somebody looks at what a builtin container holds.
  void settle_within(PyObject* container);

 private:
  struct Deferred {
    guards::Ref number;
    const guards::Source* source;
  };
  struct Read {
    guards::Ref number;
    const guards::Source* source;
  };
  std::optional<ir::Size> symbol_of(PyObject* number, const guards::Source* source);
  PyObject* vary_float(PyObject* number, const guards::Source* source);
  void settle_within(PyObject* container, std::unordered_set<PyObject*>& seen);
  void settle_sizes_within(PyObject* value, std::unordered_set<PyObject*>& seen);

  Values& values_;
  std::unordered_map<PyObject*, Deferred> deferred_;  ///< By what stands for them.
  std::unordered_map<PyObject*, ir::Size> sizes_;
  std::unordered_map<PyObject*, DerivedNumber> derived_;
  std::unordered_map<const guards::Source*, ir::Size> varied_;          ///< Of the numbers that were read there.
  std::unordered_map<const guards::Source*, PyObject*> varied_floats_;  ///< What stands for each.
  std::optional<Read> read_;
  bool hands_on_read_ = false;
  std::unordered_set<PyObject*> settled_sizes_;
  std::vector<guards::Ref> handed_;
};

/// A class of iterators that give the items of others to a function: `map` and the like.
bool calls_for_items(PyTypeObject* type);
/// A class whose instances iterate over others, `zip` and the like.
bool is_iterator_of_others(PyTypeObject* type);

}  // namespace braze::interpreter
