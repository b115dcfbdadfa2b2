// python/interpreter/flow.h: where instructions lead, and what they take.
#pragma once

#include <optional>

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

enum class Flow : uint8_t {
  next,           ///< Goes on with the next instruction.
  forward,        ///< Jumps forward by its argument.
  backward,       ///< Jumps back by its argument.
  maybe_forward,  ///< Either.
  maybe_backward,
  ends,  ///< Leaves the frame, or goes to a handler.
};
Flow flow_of(int opcode);
/// The truth of the topmost value for which an instruction jumps; nothing: it does not ask that, or keeps the
/// value.
std::optional<bool> jumps_if(int opcode);

/// What an instruction does with the local variable that its argument names.
enum class LocalUse : uint8_t {
  none,
  copies,   ///< Puts its value on the stack.
  takes,    ///< Likewise, and leaves the variable empty; puts nothing there if it is empty.
  deletes,  ///< Raises if it is empty.
  stores,   ///< Takes the value on top of the stack.
};
LocalUse local_use(int opcode);

/// How many values an instruction takes off the stack to look at them; -1: not known, take it for all. Storing,
/// copying and dropping is not looking.
int operands_used(int opcode, int arg);
/// The instruction only puts the operand `depth` (1 is the top) into a container or a cell, whatever it is.
bool moves_operand(int opcode, int arg, int depth);
/// If that operand is a container, the instruction looks at none of what it contains.
bool leaves_shut(int opcode, int arg, int depth);
/// How deep the container lies on the stack that an instruction adds to, besides what it uses; 1 is the top, 0:
/// none.
int container_grown(int opcode, int arg);

}  // namespace braze::interpreter
