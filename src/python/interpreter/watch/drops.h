// python/interpreter/watch/drops.h: what a watched run lets go of.
#pragma once

#include <Python.h>

#include <vector>

#include "python/guards/drops.h"
#include "python/guards/source.h"

namespace braze::interpreter {

class Values;

class Drops {
 public:
  explicit Drops(Values& values) : values_(values) {}
  Drops(const Drops&) = delete;
  Drops& operator=(const Drops&) = delete;

  /// The run lets go of what `source` holds, or of its items; `value` is that now, and null if there is nothing.
  /// False: somebody may notice, or it takes too long to find out.
  bool add(PyObject* value, const guards::Source* source, bool contents = false);
  /// At the end: guards say that nobody notices.
  void guard();
  /// It has let go of something: natively, that is gone.
  bool any() const { return any_; }

 private:
  struct Drop {
    const guards::Source* source;
    bool contents;
  };
  Values& values_;
  std::vector<Drop> drops_;
  guards::Unnoticed known_;  ///< As far as the run goes: the guards look again, with nothing changed in between.
  size_t looked_at_ = 0;     ///< Objects that hang on what was let go of.
  bool any_ = false;
};

}  // namespace braze::interpreter
