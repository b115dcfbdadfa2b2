// python/interpreter/liveness.h: which local variables the code may still read.
//
// A frame that is to be built anew in the middle of its function needs only the variables that some path from there
// reads before it writes them. Classical backward data flow (Kildall 1973) over the instructions, with the edges
// from every instruction to its exception handler.
#pragma once

#include <vector>

#include "python/interpreter/cpython.h"

namespace braze::interpreter {

class Liveness {
 public:
  explicit Liveness(PyCodeObject* code);

  /// Whether slot `local` (an index into localsplus) may be read at or after the instruction at `offset`. Cells and
  /// free variables always may.
  bool is_live(int offset, int local) const { return live_[static_cast<size_t>(offset) * locals_ + local]; }

 private:
  size_t locals_;
  std::vector<bool> live_;  ///< [code units, locals]
};

}  // namespace braze::interpreter
