// python/interpreter/liveness.cpp
#include "python/interpreter/liveness.h"

#include "python/interpreter/exception_table.h"
#include "python/interpreter/flow.h"

namespace braze::interpreter {

namespace {

struct Instruction {
  int start, next;  ///< Code units; start is that of its first EXTENDED_ARG.
  int opcode, arg;
};

std::vector<Instruction> instructions_of(PyCodeObject* code) {
  std::vector<Instruction> all;
  const CodeUnit* const first = _PyCode_CODE(code);
  const int size = static_cast<int>(Py_SIZE(code));
  for (int at = 0; at < size;) {
    Instruction one{at, 0, braze_plain_opcode[_Py_OPCODE(first[at])], _Py_OPARG(first[at])};
    while (one.opcode == EXTENDED_ARG) {
      ++at;
      one.opcode = braze_plain_opcode[_Py_OPCODE(first[at])];
      one.arg = (one.arg << 8) | _Py_OPARG(first[at]);
    }
    at += 1 + braze_cache_units[one.opcode];
    one.next = at;
    all.push_back(one);
  }
  return all;
}

}  // namespace

Liveness::Liveness(PyCodeObject* code) : locals_(static_cast<size_t>(code->co_nlocalsplus)) {
  const size_t size = static_cast<size_t>(Py_SIZE(code)) + 1;
  live_.resize(size * locals_);
  std::vector<int> handlers(size, -1);
  for_each_region(code, [&](const Region& region) {
    for (int at = region.start; at < region.start + region.size; ++at) handlers[at] = region.handler;
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
