// python/interpreter/ref.h: the owned reference of guards/ref.h under this folder's name.
#pragma once

#include "python/guards/ref.h"

namespace braze::interpreter {

using guards::Ref;

}  // namespace braze::interpreter
