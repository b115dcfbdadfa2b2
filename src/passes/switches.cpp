#include "passes/switches.h"

#include <algorithm>
#include <cstdlib>

namespace braze::passes {
namespace {

std::string_view text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool lists(std::string_view names, std::string_view wanted) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    if (names.substr(0, end) == wanted) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

Switches Switches::from_environment() {
  Switches switches;
  switches.passes_off = text("BRAZE_PASSES_OFF");
  switches.print_after = text("BRAZE_PRINT_AFTER");
  switches.verify = text("BRAZE_VERIFY") == "1";
  if (const char* limit = std::getenv("BRAZE_REWRITES")) switches.rewrites = std::strtoll(limit, nullptr, 10);
  return switches;
}

bool Switches::is_off(std::string_view pass) const {
  return lists(passes_off, pass);
}

bool Switches::prints_after(std::string_view pass) const {
  return lists(print_after, pass) || lists(print_after, "all");
}

}  // namespace braze::passes
