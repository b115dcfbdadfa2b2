// python/interpreter/watch/other_threads.h: what other threads see of a run.
//
// Operators on tensors release the GIL, and nothing else that a run does. Where there is another Python thread, the
// run's changes are taken back before such an instruction and made again after it, and around the Python code that
// it enters: that thread sees neither tracers nor half of what the run changes, and nothing that it changes is
// undone. C code that has something changed in its hands must see the changes: there the run ends.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// What other threads see of the run.
class OtherThreads final : Domain {
 public:
  using Domain::Domain;

  /// An instruction that is understood is about to run.
  bool hide_effects(Activation& a, int opcode, int arg);
  bool hide_effects();
  bool show_effects();
};

}  // namespace braze::interpreter
