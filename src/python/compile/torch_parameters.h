// python/compile/torch_parameters.h: what operators take among their arguments, by their schemas.
#pragma once

#include <cstddef>
#include <string_view>

#include "python/interpreter/watch/scalar_world.h"

namespace braze::python {

/// Of all overloads, as PyTorch's parser takes them from Python.
interpreter::Parameter parameter_of_operator(std::string_view name, size_t place, std::string_view keyword);

}  // namespace braze::python
