// python/interpreter/watch/place.h: where in the user's source something was not understood, and what.
#pragma once

#include <string>
#include <utility>

#include "python/interpreter/watch/break_reasons.h"

namespace braze::interpreter {

struct Place {
  Place() = default;
  Place(BreakReason why) : id(why.id()), reason(why.text()) {}  // NOLINT: a reason whose place is not known
  Place(Break why) : Place(BreakReason(why)) {}                 // NOLINT: likewise
  /// "text: detail".
  Place(Break why, std::string_view detail) : Place(why) { reason.append(": ").append(detail); }
  Place(BreakReason why, std::string_view detail, std::string file, int line)
      : id(why.id()), reason(why.text()), file(std::move(file)), line(line) {
    if (!detail.empty()) reason.append(": ").append(detail);
  }

  Break id = Break::other;
  std::string reason, file;  ///< The reason with what it is about: "... (a Tensor ...)".
  int line = 0;              ///< 0: not known.

  /// "file:line: reason".
  std::string text() const { return file.empty() ? reason : file + ":" + std::to_string(line) + ": " + reason; }
  /// What a user can do about it: one sentence.
  std::string_view remedy() const { return row_of(id).remedy; }
};

}  // namespace braze::interpreter
