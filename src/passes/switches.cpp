#include "passes/switches.h"

#include <algorithm>
#include <cstdlib>

#include "support/switches.h"

namespace braze::passes {
namespace {

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
  switches.passes_off = braze::switches::text(braze::switches::passes_off);
  switches.print_after = braze::switches::text(braze::switches::print_after);
  switches.verify = braze::switches::text(braze::switches::verify) == "1";
  // The environment's texts end with a zero.
  const std::string_view limit = braze::switches::text(braze::switches::rewrites);
  if (!limit.empty()) switches.rewrites = std::strtoll(limit.data(), nullptr, 10);
  return switches;
}

bool Switches::is_off(std::string_view pass) const {
  return lists(passes_off, pass);
}

bool Switches::prints_after(std::string_view pass) const {
  return lists(print_after, pass) || lists(print_after, "all");
}

}  // namespace braze::passes
