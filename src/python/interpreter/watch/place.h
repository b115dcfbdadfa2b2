// python/interpreter/watch/place.h: where in the user's source something was not understood, and what.
#pragma once

#include <string>

namespace braze::interpreter {

struct Place {
  std::string reason, file = {};
  int line = 0;  ///< 0: not known.

  /// "file:line: reason".
  std::string text() const { return file.empty() ? reason : file + ":" + std::to_string(line) + ": " + reason; }
};

}  // namespace braze::interpreter
