// python/guards/warning_filters.h: what becomes of a warning.
#pragma once

#include <Python.h>

namespace braze::guards {

/// Of the module `warnings`, borrowed; null: it is not there.
PyObject* globals_of_warnings() noexcept;

/// Some warnings of the class would be exceptions, or are shown by a function of the user's, which may do anything.
bool may_do_more(PyObject* category) noexcept;

/// That of `catch_warnings(record=True)`, borrowed; null if there is none.
PyObject* list_that_takes_warnings() noexcept;

}  // namespace braze::guards
