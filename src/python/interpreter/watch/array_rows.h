// python/interpreter/watch/array_rows.h: what the watcher knows of NumPy's functions, by name.
#pragma once

#include <optional>
#include <string_view>

namespace braze::interpreter {

/// A function of NumPy's that computes on its arguments alone: among how many of the first arguments arrays are
/// operands. What stands behind may be an array to write to. Nothing for all others.
std::optional<int> operands_of_array_function(std::string_view name);

struct ArrayMethod {
  int operands;  ///< Likewise.
  bool writes;   ///< The array itself.
};
std::optional<ArrayMethod> array_method(std::string_view name);

/// An attribute that an array, a number of NumPy's or a dtype computes of what it is.
bool is_array_attribute(std::string_view name);

}  // namespace braze::interpreter
