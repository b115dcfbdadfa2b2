// python/interpreter/watch/generators.h: generators of the run.
#pragma once

#include <vector>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// A generator of this code that is closed where it stands runs code of the user's.
bool has_handlers(PyCodeObject* code);

/// Generators that the run has made.
class Generators final : Domain {
 public:
  ~Generators();
  Generators(Watch& watch, WatchedRun& run) : Domain(watch, run) {}

  /// The run leaves a generator in the middle of what may be a `try` or `with`.
  bool leaves_generator() const;

  /// A generator that is dropped before its end runs its `finally` blocks, which a capture must not.
  void keep_generator(PyObject* generator);
  /// A generator that the run made goes on. What is thrown into it was made by the run too.
  bool resume_generator(PyObject* generator, PyObject* const* arguments, Py_ssize_t count);

 private:
  std::vector<guards::Ref> generators_;  ///< Made by the run, with `try` or `with` in them.
};

}  // namespace braze::interpreter
