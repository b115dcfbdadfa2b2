// python/guards/drops.h: whether anybody notices when an object goes.
//
// A replay lets go of what a run overwrites only at its end. That is as good as at once unless code runs when the
// last reference goes: a finalizer, the callback of a weak reference, of the object itself or of what dies with it.
// What dies is found as the collector finds it: objects all of whose references come from what dies.
#pragma once

#include <Python.h>

#include <functional>
#include <unordered_set>

namespace braze::guards {

/// Objects that were found to go unnoticed, and what dies with them, while nothing changes: each dies with less if
/// it is dropped alone, and need not be looked at again. So a walk along linked objects takes time in proportion to
/// it.
using Unnoticed = std::unordered_set<PyObject*>;

/// Reads storage alone, in time in proportion to what dies.
/// \param dropped  how many references to `value` may go.
/// \param extra    how many references of an object do not count, because whoever asks holds them; may be empty.
/// \param known    is asked first, and told; may be null.
bool goes_unnoticed(PyObject* value, Py_ssize_t dropped, const std::function<Py_ssize_t(PyObject*)>& extra = {},
                    Unnoticed* known = nullptr);

/// While it lives, the guards that this thread tests share what they have found.
class SharedDrops {
 public:
  SharedDrops() noexcept;
  ~SharedDrops();
  SharedDrops(const SharedDrops&) = delete;
  SharedDrops& operator=(const SharedDrops&) = delete;

 private:
  Unnoticed known_;
  Unnoticed* outer_;
};

}  // namespace braze::guards
