// python/interpreter/cpython.h: the only door to CPython's internal headers.
//
// Frames, the thread's evaluation state and generators are laid out differently in each version of CPython, and
// many helpers are not exported from its library. What the evaluator needs of them is included here and nowhere
// else.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030D0000
#error "the evaluator is written for the frames and opcodes of CPython 3.11 and 3.12"
#endif

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE
#endif
// C's <stdatomic.h> is no C++20; CPython's other branch has the same layout.
#undef HAVE_STD_ATOMIC
// Macros for extensions that have the names of internal functions.
#undef _PyObject_LookupSpecial
#undef _PyGC_FINALIZED
#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_genobject.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pyerrors.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_unicodeobject.h>
#include <opcode.h>

namespace braze::interpreter {

using CodeUnit = _Py_CODEUNIT;

/// Arithmetic on one operand: `-x`, `+x`, `~x`.
enum class UnaryOperation : uint8_t { none, negative, positive, invert };

}  // namespace braze::interpreter

// This version's tables of opcodes, for #include.
#if PY_VERSION_HEX >= 0x030C0000
#define BRAZE_OPCODES "python/interpreter/opcodes_312.def"
#define BRAZE_FLOW "python/interpreter/flow_312.def"
#include "python/interpreter/cpython_312.h"
#else
#define BRAZE_OPCODES "python/interpreter/opcodes_311.def"
#define BRAZE_FLOW "python/interpreter/flow_311.def"
#include "python/interpreter/cpython_311.h"
#endif

extern "C" {
/// By opcode as it stands in the code: the opcode before CPython specialised it.
extern const uint8_t* const braze_plain_opcode;
/// By plain opcode: how many code units of inline cache follow it.
extern const uint8_t* const braze_cache_units;
}
