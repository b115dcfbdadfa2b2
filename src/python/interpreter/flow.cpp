// python/interpreter/flow.cpp
#include "python/interpreter/flow.h"

#include <array>

namespace braze::interpreter {

namespace {

/// Operands from the first to the last, by depth. By default none.
struct Depths {
  int (*first)(int arg) = nullptr;
  int (*last)(int arg) = nullptr;

  bool contain(int depth, int arg) const { return first && first(arg) <= depth && depth <= last(arg); }
};

/// What the table of the version says about one opcode.
struct Row {
  Flow flow{};
  LocalUse use{};
  int (*operands)(int arg) = nullptr;  ///< How many; null: not known.
  int (*grows)(int arg) = nullptr;     ///< How deep what it adds to lies; null: nothing.
  std::optional<bool> jumps_if{};
  Depths moves, shut;  ///< Operands that it only moves, and containers that it does not look into.
};

constexpr std::array<Row, 256> kRows = [] {
  std::array<Row, 256> rows{};
#define FLOW(opcode, kind) rows[opcode].flow = Flow::kind;
#define JUMPS(opcode, truth) rows[opcode].jumps_if = truth;
#define LOCAL(opcode, kind) rows[opcode].use = LocalUse::kind;
#define USES(opcode, count) rows[opcode].operands = []([[maybe_unused]] int arg) -> int { return count; };
#define GROWS(opcode, depth) rows[opcode].grows = [](int arg) -> int { return depth; };
#define DEPTHS(from, to)                                    \
  {                                                         \
      []([[maybe_unused]] int arg) -> int { return from; }, \
      []([[maybe_unused]] int arg) -> int { return to; },   \
  }
#define MOVES(opcode, from, to) rows[opcode].moves = DEPTHS(from, to);
#define SHUT(opcode, from, to) rows[opcode].shut = DEPTHS(from, to);
#include BRAZE_FLOW
#undef FLOW
#undef JUMPS
#undef LOCAL
#undef USES
#undef GROWS
#undef MOVES
#undef SHUT
#undef DEPTHS
  return rows;
}();

}  // namespace

Flow flow_of(int opcode) {
  return kRows[opcode].flow;
}

std::optional<bool> jumps_if(int opcode) {
  return kRows[opcode].jumps_if;
}

LocalUse local_use(int opcode) {
  return kRows[opcode].use;
}

int operands_used(int opcode, int arg) {
  const auto operands = kRows[opcode].operands;
  return operands ? operands(arg) : -1;
}

bool moves_operand(int opcode, int arg, int depth) {
  return kRows[opcode].moves.contain(depth, arg);
}

bool leaves_shut(int opcode, int arg, int depth) {
  return kRows[opcode].shut.contain(depth, arg);
}

int container_grown(int opcode, int arg) {
  const auto grows = kRows[opcode].grows;
  return grows ? grows(arg) : 0;
}

}  // namespace braze::interpreter
