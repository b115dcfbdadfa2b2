// python/guards/imports.h: modules by name, in whatever frame that is.
#pragma once

#include "python/guards/ref.h"

namespace braze::guards {

/// As `import` gives it; null, with the error set, if it cannot be loaded. PyImport_ImportModule() looks for
/// `__import__` among the builtins of the frame that is under way, which may have none, as the `__new__` of a named
/// tuple.
Ref import_module(const char* name) noexcept;

}  // namespace braze::guards
