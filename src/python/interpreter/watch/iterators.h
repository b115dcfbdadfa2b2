// python/interpreter/watch/iterators.h: iterators that existed before the run.
//
// A `for` that was begun before the run goes on in it: the run really moves the iterator on, which is an effect
// like others (effects.h), undone at the end and repeated by the replay. What it gives is known by where it lies,
// as item k from where the iterator stood when the run began, so that neither the position nor an item which is
// only passed on is guarded, and one program serves all iterations. Guards say how many items there must be left.
#pragma once

#include <vector>

#include "python/interpreter/watch/domain.h"
#include "python/interpreter/watch/root_frame.h"

namespace braze::interpreter {

/// Iterators that existed before the run.
class Iterators final : Domain {
 public:
  using Domain::Domain;

  /// What the running instruction gets from an older iterator, if anything.
  Passed& next_item() { return next_item_; }

  bool is_older_iterator(PyObject* object) const;
  /// The running instruction asks an iterator that existed before the run for its next item.
  bool ask_next(PyObject* iterator);
  /// The instruction has put what the iterator gave on top of the stack.
  bool receive(Activation& a);
  bool learn_passed(PyObject* value, const Passed& passed);

 private:
  /// What asking an iterator comes to.
  enum class Next : uint8_t { gives, ends, unknown };
  Next advance(PyObject* iterator, Passed& item, std::vector<PyObject*>& asked);
  Next advance_zip(PyObject* zip, const guards::Source* source, Passed& item, std::vector<PyObject*>& asked);
  Next advance_within(PyObject* iterator, const guards::Source* source, Passed& item,
                      std::vector<PyObject*>& asked);

  Passed next_item_;
};

}  // namespace braze::interpreter
