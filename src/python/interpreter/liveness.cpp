// python/interpreter/liveness.cpp
#include "python/interpreter/liveness.h"

#include "python/interpreter/exception_table.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/instructions.h"

namespace braze::interpreter {

Liveness::Liveness(PyCodeObject* code) : locals_(static_cast<size_t>(code->co_nlocalsplus)) {
  const size_t size = static_cast<size_t>(Py_SIZE(code)) + 1;
  live_.resize(size * locals_);
  std::vector<int> handlers(size, -1);
  for_each_handler_range(code, [&](const HandlerRange& range) {
    for (int at = range.start; at < range.start + range.size; ++at) handlers[at] = range.handler;
    return true;
  });
  std::vector<bool> is_cell(locals_);
  for (size_t i = 0; i < locals_; ++i)
    is_cell[i] = PyBytes_AS_STRING(code->co_localspluskinds)[i] & (CO_FAST_CELL | CO_FAST_FREE);
  const std::vector<Instruction> instructions = instructions_of(code);
  std::vector<bool> now(locals_);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = instructions.size(); k-- > 0;) {
      const Instruction& one = instructions[k];
      const auto join = [&](int target) {
        for (size_t i = 0; i < locals_; ++i)
          if (live_[target * locals_ + i]) now[i] = true;
      };
      now = is_cell;
      switch (flow_of(one.opcode)) {
        case Flow::next: join(one.next); break;
        case Flow::forward: join(one.next + one.arg); break;
        case Flow::backward: join(one.next - one.arg); break;
        case Flow::maybe_forward: join(one.next), join(one.next + one.arg); break;
        case Flow::maybe_backward: join(one.next), join(one.next - one.arg); break;
        case Flow::ends: break;
      }
      const LocalUse use = local_use(one.opcode);
      if (use != LocalUse::none) now[one.arg] = use != LocalUse::stores || is_cell[one.arg];
      if (handlers[one.next - 1] >= 0) join(handlers[one.next - 1]);
      for (int at = one.start; at < one.next; ++at)
        for (size_t i = 0; i < locals_; ++i)
          if (now[i] && !live_[at * locals_ + i]) {
            live_[at * locals_ + i] = true;
            changed = true;
          }
    }
  }
}

}  // namespace braze::interpreter
