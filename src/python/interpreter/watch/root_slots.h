// python/interpreter/watch/root_slots.h: runs that begin in the middle of a frame.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// The slots of the frame in the middle of which the run began.
class RootSlots final : Domain {
 public:
  using Domain::Domain;

  /// What the instruction uses of the root frame's stack is learnt now; what it only moves goes on being passed on.
  bool consume(Activation& a, int opcode, int arg);
  /// What the instruction looks at is guarded, and is the number itself again.
  void settle_operands(Activation& a, int opcode, int arg);

 private:
  bool learn_slot(Activation& a, int slot, bool stays = false);
  bool drops(Activation& a, int slot);
  bool learn_cell_slot(Activation& a, int index);
  static bool only_moves(Activation& a, int opcode, int arg, int depth);
  bool defer_slot(Activation& a, int slot);
};

}  // namespace braze::interpreter
