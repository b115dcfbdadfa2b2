// python/interpreter/flow.cpp
#include "python/interpreter/flow.h"

#include <array>

namespace braze::interpreter {

namespace {

/// What the table of the version says about one opcode.
struct Row {
  Flow flow{};
  LocalUse use{};
  int (*operands)(int arg) = nullptr;  ///< How many; null: not known.
  int (*grows)(int arg) = nullptr;     ///< How deep what it adds to lies; null: nothing.
};

constexpr std::array<Row, 256> kRows = [] {
  std::array<Row, 256> rows{};
#define FLOW(opcode, kind) rows[opcode].flow = Flow::kind;
#define LOCAL(opcode, kind) rows[opcode].use = LocalUse::kind;
#define USES(opcode, count) rows[opcode].operands = []([[maybe_unused]] int arg) -> int { return count; };
#define GROWS(opcode, depth) rows[opcode].grows = [](int arg) -> int { return depth; };
#include BRAZE_FLOW
#undef FLOW
#undef LOCAL
#undef USES
#undef GROWS
  return rows;
}();

}  // namespace

Flow flow_of(int opcode) {
  return kRows[opcode].flow;
}

LocalUse local_use(int opcode) {
  return kRows[opcode].use;
}

int operands_used(int opcode, int arg) {
  const auto operands = kRows[opcode].operands;
  return operands ? operands(arg) : -1;
}

int container_grown(int opcode, int arg) {
  const auto grows = kRows[opcode].grows;
  return grows ? grows(arg) : 0;
}

}  // namespace braze::interpreter
