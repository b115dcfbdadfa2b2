// python/interpreter/watch/held_locks.h: locks that a run has really taken, and holds.
#pragma once

#include <algorithm>
#include <vector>

#include "python/guards/ref.h"
#include "support/error.h"

namespace braze::interpreter {

class HeldLocks {
 public:
  void take(PyObject* lock) { locks_.push_back(guards::Ref::borrow(lock)); }
  void release(PyObject* lock) {
    const auto last =
        std::find_if(locks_.rbegin(), locks_.rend(), [&](const guards::Ref& one) { return one.get() == lock; });
    if (last != locks_.rend()) locks_.erase(std::next(last).base());
  }
  bool are_any() const { return !locks_.empty(); }
  /// Really, the one that was taken last first.
  void release_all() {
    for (auto lock = locks_.rbegin(); lock != locks_.rend(); ++lock) {
      const guards::Ref done = guards::Ref::steal(PyObject_CallMethod(lock->get(), "release", nullptr));
      BRAZE_CHECK(done, "a lock that a run has taken is not to be released");
    }
    locks_.clear();
  }

 private:
  std::vector<guards::Ref> locks_;
};

}  // namespace braze::interpreter
