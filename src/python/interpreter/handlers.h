// python/interpreter/handlers.h: one handler an opcode. Those of one topic share a file, handlers_<topic>.cpp.
//
// A handler pops its operands, does what CPython's instruction does, pushes the result and says how to go on. An
// error leaves Python's exception set; what is still on the stack is dropped by the unwinder.
#pragma once

#include "python/interpreter/activation.h"

namespace braze::interpreter {

#define OPCODE(name, handler, look) Step handler(Activation& a, int arg);
#include BRAZE_OPCODES
#undef OPCODE

/// Signals, pending calls and requests for the GIL. Called where CPython calls it: at backward jumps, after
/// calls, on entry and resumption of frames.
Step service_eval_breaker(Activation& a);

/// Sets a NameError for `name`, with its attribute `name`. `format` has one %U.
void raise_name_error(PyObject* exception, const char* format, PyObject* name);

/// Sets the error of reading an empty local or cell.
void raise_unbound(Activation& a, int index);

}  // namespace braze::interpreter
