// support/switches.h: the environment variables that the compiled part reads: one table (switches.def).
//
//   if (switches::text(switches::isa) == "avx2") ...
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace braze::switches {

enum Switch : uint8_t {
#define BRAZE_SWITCH(name, values, meaning) name,
#include "support/switches.def"
#undef BRAZE_SWITCH
};

struct Row {
  std::string_view name;  ///< "BRAZE_ISA"
  std::string_view values, meaning;
};

/// By Switch.
std::span<const Row> rows();

/// What the environment says now; empty if it says nothing. The text is the environment's: it lives until the
/// variable is changed.
std::string_view text(Switch which);

}  // namespace braze::switches
