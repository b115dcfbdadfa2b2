#include "support/switches.h"

#include <cstdlib>

namespace braze::switches {

namespace {

// Upper case is spelled by the compiler, so that a row has its name once.
template <size_t size>
struct Upper {
  char text[size + 6] = "BRAZE_";
  constexpr explicit Upper(const char (&name)[size]) {
    for (size_t i = 0; i < size; ++i) text[i + 6] = name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i];
  }
};

#define BRAZE_SWITCH(name, values, meaning) constexpr Upper name##_variable(#name);
#include "support/switches.def"
#undef BRAZE_SWITCH

constexpr Row table[] = {
#define BRAZE_SWITCH(name, values, meaning) {name##_variable.text, values, meaning},
#include "support/switches.def"
#undef BRAZE_SWITCH
};

}  // namespace

std::span<const Row> rows() {
  return table;
}

std::string_view text(Switch which) {
  const char* value = std::getenv(table[which].name.data());
  return value ? value : "";
}

}  // namespace braze::switches
