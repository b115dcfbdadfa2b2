// python/interpreter/instructions.h: the instructions of a code object, as they were before CPython specialised
// them or put instrumented forms in their place.
#pragma once

#include <vector>

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

/// Offsets in code units.
struct Instruction {
  int start, next;  ///< Its first EXTENDED_ARG, and the instruction after its inline cache.
  int opcode, arg;
};

/// The one that starts at `offset`. Both throw std::bad_alloc when the code is looked at for the first time only.
Instruction instruction_at(PyCodeObject* code, int offset);
/// All of them, in order.
std::vector<Instruction> instructions_of(PyCodeObject* code);
/// The line of the instruction at `offset`, or of the next that has one: where handlers begin, CPython tells none.
int line_at(PyCodeObject* code, int offset);

}  // namespace braze::interpreter
