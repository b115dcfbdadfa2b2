// python/interpreter/code_units.h: the only door to the code units of a code object.
//
// CPython rewrites code while it runs: instructions become specialised forms (EXTENDED_ARG and jumps too), tools
// put instrumented forms in their place, and an inline cache may look like any instruction. So a unit means
// something only where an instruction is known to begin, nobody reads code backwards, and every opcode is
// translated back.
#pragma once

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

inline CodeUnit* first_unit(PyCodeObject* code) {
  return _PyCode_CODE(code);
}

/// Of the instruction that begins at `at`, as it was before CPython specialised it. Instrumented forms stay.
inline int opcode_at(const CodeUnit* at) {
  return braze_plain_opcode[_Py_OPCODE(*at)];
}

/// An instruction with its whole argument.
struct Fetched {
  int opcode, arg;
  const CodeUnit* last;  ///< Where its opcode stands, after all EXTENDED_ARG.
  const CodeUnit* next;  ///< After its inline cache.
};

/// The instruction that begins at `at`, with its first EXTENDED_ARG.
inline Fetched fetch(const CodeUnit* at) {
  int opcode = opcode_at(at), arg = _Py_OPARG(*at);
  while (opcode == EXTENDED_ARG) {
    ++at;
    opcode = opcode_at(at);
    arg = (arg << 8) | _Py_OPARG(*at);
  }
  return {opcode, arg, at, at + 1 + braze_cache_units[opcode]};
}

}  // namespace braze::interpreter
