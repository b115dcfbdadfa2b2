// python/interpreter/flow.cpp
#include "python/interpreter/flow.h"

#include <array>

namespace braze::interpreter {

Flow flow_of(int opcode) {
  static constexpr auto flows = [] {
    std::array<Flow, 256> table{};
#define FLOW(opcode, flow) table[opcode] = Flow::flow;
#define LOCAL(opcode, use)
#define USES(opcode, count)
#include BRAZE_FLOW
#undef FLOW
#undef LOCAL
#undef USES
    return table;
  }();
  return flows[opcode];
}

LocalUse local_use(int opcode) {
  static constexpr auto uses = [] {
    std::array<LocalUse, 256> table{};
#define FLOW(opcode, flow)
#define LOCAL(opcode, use) table[opcode] = LocalUse::use;
#define USES(opcode, count)
#include BRAZE_FLOW
#undef FLOW
#undef LOCAL
#undef USES
    return table;
  }();
  return uses[opcode];
}

int operands_used(int opcode, int arg) {
  switch (opcode) {
#define FLOW(opcode, flow)
#define LOCAL(opcode, use)
#define USES(opcode, count) \
  case opcode: return count;
#include BRAZE_FLOW
#undef FLOW
#undef LOCAL
#undef USES
    default: return -1;
  }
}

}  // namespace braze::interpreter
