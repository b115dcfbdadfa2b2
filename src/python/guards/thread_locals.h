// python/guards/thread_locals.h: the attributes that a threading.local has for the present thread.
//
// They are the entries of a dict that belongs to the thread. An instance of a subclass has another dict beside it,
// as all instances do, in which nothing is ever looked up.
#pragma once

#include <Python.h>

namespace braze::guards {

/// An instance of threading.local, or of a subclass that leaves its lookup to it.
bool is_thread_local(PyObject* object) noexcept;
/// The setter of such objects, as tp_setattro has it.
setattrofunc thread_local_setter() noexcept;
/// The present thread's dict, borrowed. Null, and no Python code is run: a class with an `__init__` is asked for
/// the first time in this thread.
PyObject* thread_local_dict(PyObject* local) noexcept;

}  // namespace braze::guards
