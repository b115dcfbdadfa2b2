// compile/inspect.h: the facts that a plan and its machine code tell by themselves.
#pragma once

#include "compile/driver.h"

namespace braze::driver {

/// Fills in what `artifact.facts` says of kernels, steps and bytes. The code may be missing.
void inspect(Artifact& artifact);

}  // namespace braze::driver
