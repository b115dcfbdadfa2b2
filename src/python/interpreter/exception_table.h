// python/interpreter/exception_table.h: which handler covers an instruction.
//
// The format is described in Objects/exception_handling_notes.txt of CPython.
#pragma once

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

/// Offsets and sizes in code units.
struct HandlerRange {
  int start, size;
  int handler;
  int depth;          ///< What stays on the operand stack.
  bool wants_offset;  ///< The handler finds the offset of the failed instruction on the stack.
};

/// Reads the next entry at `at`, and moves on.
HandlerRange read_handler_range(const uint8_t*& at);

/// Calls `visit(range)` for each entry, in order of their starts, until it gives false.
template <typename Visit>
void for_each_handler_range(PyCodeObject* code, Visit&& visit) {
  const auto* at = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const uint8_t* const end = at + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (at < end)
    if (!visit(read_handler_range(at))) return;
}

/// The entry that covers `offset`; false: none.
bool find_handler_range(PyCodeObject* code, int offset, HandlerRange& found);

}  // namespace braze::interpreter
