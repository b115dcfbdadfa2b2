// python/interpreter/watch/addresses.h: what id() gives of objects that are other ones in every run.
//
// Such a number is another one in every run, too. What counts of it is which others it is equal to: as a key of
// what the run has made, and in `==`. Nothing else is done with it, and no replay hands it on.
#pragma once

#include <Python.h>

#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

/// An address of such an object, or a tuple with one in it.
bool holds_address(const Values& values, PyObject* key);
/// Beside addresses a dict or set has no number that might be one of another call.
bool keys_fit(const Values& values, PyObject* container, PyObject* key);

}  // namespace braze::interpreter
