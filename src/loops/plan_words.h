// loops/plan_words.h: the words of plans in text, for printer and parser.
#pragma once

#include <array>
#include <string_view>

#include "loops/plan.h"

namespace braze::loops {

inline constexpr std::array<std::string_view, 6> buffer_words = {"input", "temporary", "output",
                                                                 "call",  "part",      "mutated"};  // by BufferKind

/// Whether the number behind the word is PlanBuffer::index; else it is its offset.
constexpr bool has_index(BufferKind kind) {
  return kind == BufferKind::input || kind == BufferKind::output || kind == BufferKind::mutated;
}

}  // namespace braze::loops
