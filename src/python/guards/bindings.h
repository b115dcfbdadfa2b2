// python/guards/bindings.h: sources, guards and recipes as Python objects, for tests and benchmarks. Internal:
// neither documented to users nor kept stable.
#pragma once

#include <pybind11/pybind11.h>

namespace braze::guards {

/// Adds GuardSet, GuardProgram, Source and RecipeBuilder, Recipe to a module.
void add_bindings(pybind11::module_& module);

}  // namespace braze::guards
