// python/interpreter/instructions.cpp
#include "python/interpreter/instructions.h"

#include <new>

#include "python/interpreter/code_units.h"
#include "python/interpreter/ref.h"

namespace braze::interpreter {

namespace {

/// As the compiler wrote it, without specialised and instrumented forms. CPython keeps the copy in the code object.
const CodeUnit* plain_units(PyCodeObject* code) {
  const Ref bytes = Ref::steal(PyCode_GetCode(code));
  if (!bytes) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  return reinterpret_cast<const CodeUnit*>(PyBytes_AS_STRING(bytes.get()));
}

Instruction read(const CodeUnit* first, int offset) {
  const Fetched found = fetch(first + offset);
  return {offset, static_cast<int>(found.next - first), found.opcode, found.arg};
}

}  // namespace

Instruction instruction_at(PyCodeObject* code, int offset) {
  return read(plain_units(code), offset);
}

std::vector<Instruction> instructions_of(PyCodeObject* code) {
  const CodeUnit* const first = plain_units(code);
  std::vector<Instruction> all;
  const int size = static_cast<int>(Py_SIZE(code));
  for (int at = 0; at < size; at = all.back().next) all.push_back(read(first, at));
  return all;
}

int line_at(PyCodeObject* code, int offset) {
  int line = -1;
  for (; line < 0 && offset < static_cast<int>(Py_SIZE(code)); ++offset)
    line = PyCode_Addr2Line(code, offset * static_cast<int>(sizeof(CodeUnit)));
  return line;
}

}  // namespace braze::interpreter
