// python/interpreter/watch/array_memory.h: what a run knows of the memory of NumPy's arrays.
//
// An array that existed before, and that was not made for the call, is guarded by its bytes when it is read; who
// keeps it may write it at any time, and so may the run itself, through a tensor that lies over the same memory and
// is really written by the program alone, at its end. So it is not read once the run has written such. Arrays that
// the run has made are its own: it may write them, and a replay makes them anew. A tensor that is made of one, and
// that would share its memory natively, holds a copy in a capture: from then on the array is not written, and
// neither is it rebuilt.
#pragma once

#include <Python.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "python/guards/ref.h"
#include "python/guards/source.h"

namespace braze::interpreter {

class Values;

class ArrayMemory {
 public:
  explicit ArrayMemory(Values& values) : values_(values) {}

  /// Is told of an array that is kept somewhere by a hash of what is in it. True: earlier runs have found another.
  using Notes = std::function<bool(const std::string& path, size_t contents)>;
  void note_in(Notes notes) { notes_ = std::move(notes); }
  /// The array at the root of a chain of views, whose memory it is.
  static PyObject* root_of(PyObject* array);
  /// What is in a number array is what it will be at later calls. False: nothing says so.
  bool read(PyObject* array);
  /// An older array that the run has read, so that it is no argument of the graph.
  bool is_constant(PyObject* array) const { return guarded_.contains(array); }
  /// The memory was made by the run, and no tensor lies over it.
  bool may_write(PyObject* array) const;
  /// A replay can make it anew: the memory is the run's own and no tensor shares it, or that of an older array.
  bool may_rebuild(PyObject* array) const;
  /// A tensor lies over the memory from here on. False: that cannot be told.
  bool share(PyObject* array);
  /// An array of the run's own, and no view, is what the graph computes from here on: `traced` stands for it.
  void compute(PyObject* array, guards::Ref traced);
  /// What stands for such, borrowed. Null for all others.
  PyObject* computed(PyObject* array) const;

 private:
  bool is_own(PyObject* root) const;

  bool has_changed(PyObject* array, const guards::Source* source);

  Values& values_;
  Notes notes_;
  std::unordered_set<PyObject*> guarded_;           ///< Older arrays.
  std::unordered_set<PyObject*> changed_;           ///< Likewise, which are others at later calls.
  std::unordered_set<PyObject*> older_;             ///< Roots of these.
  std::unordered_map<PyObject*, uint64_t> shared_;  ///< Roots, and how much tensors had been written by then.
  std::unordered_map<PyObject*, guards::Ref> computed_;
  std::vector<guards::Ref> held_;  ///< An address must not be used again.
};

}  // namespace braze::interpreter
