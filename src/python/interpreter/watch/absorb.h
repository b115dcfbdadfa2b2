// python/interpreter/watch/absorb.h: C code may read all that a value holds.
#pragma once

#include <Python.h>

#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

/// All that a C function may read of `value` is guarded: scalars, tensors, builtin containers of them.
bool absorb(Values& values, PyObject* value);
/// Likewise of what a function of PyTorch's is given: an object whose class has a `__torch_function__`, which is no
/// tensor, is only handed on to that.
bool absorb_by_torch(Values& values, PyObject* value);
/// What NumPy does about quotients by zero and the like: nothing, a warning or an exception, as numpy.errstate
/// says.
void keep_error_state(Values& values);
/// Whether that is one that was there before, when it was last asked: `with numpy.errstate()` around a segment
/// makes another one each time.
/// \param values  of a run, which may have set it. Null: none.
bool has_lasting_error_state(Values* values);
/// All that making text of an instance of a class that derives from a number or text may read is guarded.
bool absorb_text(Values& values, PyObject* value);

// Of instances of classes that derive from builtin ones (derived.cpp).
/// All that C code may ask of a number or text.
bool absorb_derived(Values& values, PyObject* value);
/// What methods of the builtin class, patterns and sets read of a text: its characters. The class may compare as it
/// likes, as torch.__version__ does.
bool absorb_content(Values& values, PyObject* value);
/// A named tuple, torch.Size or torch.return_types.max: C code reads the items where they lie.
bool acts_as_tuple(Values& values, PyObject* value);

}  // namespace braze::interpreter
