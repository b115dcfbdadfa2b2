// python/interpreter/raising_branches.cpp
#include "python/interpreter/raising_branches.h"

#include <opcode.h>

#include <vector>

#include "python/interpreter/exception_table.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/instructions.h"

namespace braze::interpreter {

namespace {

constexpr int most_instructions = 400;  // Of the way that raises: messages are made there, and little else.

/// A `with` block gets to see errors, and lets them pass.
bool is_handled(PyCodeObject* code, int offset) {
  HandlerRange range{};
  if (!find_handler_range(code, offset, range)) return false;
  const Instruction first = instruction_at(code, range.handler);
  return first.opcode != PUSH_EXC_INFO || instruction_at(code, first.next).opcode != WITH_EXCEPT_START ||
         is_handled(code, range.handler);
}

/// Every path from `offset` ends in a `raise`. Loops are not looked into.
bool only_raises(PyCodeObject* code, int offset) {
  std::vector<int> open = {offset};
  for (int count = 0; !open.empty(); ++count) {
    if (count == most_instructions) return false;
    const Instruction one = instruction_at(code, open.back());
    open.pop_back();
    switch (flow_of(one.opcode)) {
      case Flow::next: open.push_back(one.next); break;
      case Flow::forward: open.push_back(one.next + one.arg); break;
      case Flow::maybe_forward:
        open.push_back(one.next);
        open.push_back(one.next + one.arg);
        break;
      case Flow::ends:
        if (one.opcode != RAISE_VARARGS || is_handled(code, one.start)) return false;
        break;
      case Flow::backward:
      case Flow::maybe_backward: return false;
    }
    if (one.opcode == YIELD_VALUE) return false;
  }
  return true;
}

}  // namespace

std::optional<bool> truth_that_goes_on(PyCodeObject* code, int offset) {
  const Instruction jump = instruction_at(code, offset);
  const std::optional<bool> truth = jumps_if(jump.opcode);
  if (!truth) return {};
  const int target = flow_of(jump.opcode) == Flow::maybe_forward ? jump.next + jump.arg : jump.next - jump.arg;
  if (only_raises(code, target)) return !*truth;
  if (only_raises(code, jump.next)) return *truth;
  return {};
}

}  // namespace braze::interpreter
