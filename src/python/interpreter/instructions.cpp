// python/interpreter/instructions.cpp
#include "python/interpreter/instructions.h"

namespace braze::interpreter {

Instruction instruction_at(PyCodeObject* code, int offset) {
  const CodeUnit* const first = _PyCode_CODE(code);
  int at = offset;
  Instruction one{offset, 0, braze_plain_opcode[_Py_OPCODE(first[at])], _Py_OPARG(first[at])};
  while (one.opcode == EXTENDED_ARG) {
    ++at;
    one.opcode = braze_plain_opcode[_Py_OPCODE(first[at])];
    one.arg = (one.arg << 8) | _Py_OPARG(first[at]);
  }
  one.next = at + 1 + braze_cache_units[one.opcode];
  return one;
}

std::vector<Instruction> instructions_of(PyCodeObject* code) {
  std::vector<Instruction> all;
  const int size = static_cast<int>(Py_SIZE(code));
  for (int at = 0; at < size; at = all.back().next) all.push_back(instruction_at(code, at));
  return all;
}

}  // namespace braze::interpreter
