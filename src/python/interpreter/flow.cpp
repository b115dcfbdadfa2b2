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
};

constexpr std::array<Row, 256> kRows = [] {
  std::array<Row, 256> rows{};
#define FLOW(opcode, kind) rows[opcode].flow = Flow::kind;
#define LOCAL(opcode, kind) rows[opcode].use = LocalUse::kind;
#define USES(opcode, count) rows[opcode].operands = []([[maybe_unused]] int arg) -> int { return count; };
#include BRAZE_FLOW
#undef FLOW
#undef LOCAL
#undef USES
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

}  // namespace braze::interpreter
