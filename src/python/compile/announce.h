// python/compile/announce.h: new programs in the user's logs.
#pragma once

#include "python/compile/specialisation.h"

namespace braze::python {

/// Tells the guards and the graph of a program that was just made, if somebody listens (events.h).
void announce(const Specialisation& one);

}  // namespace braze::python
