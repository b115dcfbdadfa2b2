// loops/barriers.h: what threads of a block hand to each other through shared memory.
#pragma once

#include "loops/kernel.h"

namespace braze::loops {

/// Between two statements of a block that touch the same shared buffer, one of them writing it, stands a barrier:
/// else a thread might read what another one has yet to write. Throws InternalError.
void check_barriers(const Kernel& kernel);

}  // namespace braze::loops
