// python/guards/drops.h: whether anybody notices when an object goes.
//
// A replay lets go of what a run overwrites only at its end. That is as good as at once unless code runs when the
// last reference goes: a finalizer, the callback of a weak reference, of the object itself or of what dies with it.
// What dies is found as the collector finds it: objects all of whose references come from what dies.
#pragma once

#include <Python.h>

#include <functional>

namespace braze::guards {

/// Reads storage alone, in time in proportion to what dies.
/// \param dropped  how many references to `value` may go.
/// \param extra    how many references of an object do not count, because whoever asks holds them; may be empty.
bool goes_unnoticed(PyObject* value, Py_ssize_t dropped, const std::function<Py_ssize_t(PyObject*)>& extra = {});

}  // namespace braze::guards
