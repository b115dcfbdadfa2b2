#include "passes/switches.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "support/error.h"
#include "support/switches.h"

namespace braze::passes {
namespace {

/// The first name for which `is_it` holds; empty if there is none.
template <typename Test>
std::string_view find_name(std::string_view names, Test&& is_it) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    if (end > 0 && is_it(names.substr(0, end))) return names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return {};
}

bool lists(std::string_view names, std::string_view wanted) {
  return !find_name(names, [&](std::string_view name) { return name == wanted; }).empty();
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

void Switches::check(std::span<const std::string_view> known) const {
  const auto check = [&](std::string_view variable, std::string_view names, std::string_view also) {
    const std::string_view wrong = find_name(names, [&](std::string_view name) {
      return name != also && std::ranges::find(known, name) == known.end();
    });
    if (wrong.empty()) return;
    std::string all(also);
    for (const std::string_view name : known) all += concat(all.empty() ? "" : ", ", name);
    throw UserError(concat(variable, " names `", wrong, "`, which is no pass. They are: ", all),
                    UserError::Kind::value);
  };
  check("BRAZE_PASSES_OFF", passes_off, "");
  check("BRAZE_PRINT_AFTER", print_after, "all");
}

bool Switches::is_off(std::string_view pass) const {
  return lists(passes_off, pass);
}

bool Switches::prints_after(std::string_view pass) const {
  return lists(print_after, pass) || lists(print_after, "all");
}

}  // namespace braze::passes
