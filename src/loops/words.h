// loops/words.h: the words of the loop IR's text, and facts that printer, parser and verifier share.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "loops/kernel.h"

namespace braze::loops {

// One word per enumerator, in order.
inline constexpr std::array<std::string_view, 3> access_words = {"in", "out", "inout"};
inline constexpr std::array<std::string_view, 4> space_words = {"global", "local", "shared", "registers"};
inline constexpr std::array<std::string_view, 9> combine_words = {"sum", "prod",   "max",    "min",   "any",
                                                                  "all", "argmax", "argmin", "serial"};
inline constexpr std::array<std::string_view, 4> bind_words = {"none", "block", "warp", "thread"};
inline constexpr std::array<std::string_view, 3> atomic_words = {"add", "max", "min"};
/// StmtKind.
inline constexpr std::array<std::string_view, 14> stmt_words = {
    "constant", "scalar",  "symbol", "compute", "affine", "load",    "store",
    "atomic",   "checked", "alloc",  "for",     "if",     "barrier", "transpose"};

template <typename Enum, size_t N>
std::string_view word(const std::array<std::string_view, N>& words, Enum value) {
  return words[static_cast<size_t>(value)];
}

template <typename Enum, size_t N>
std::optional<Enum> find_word(const std::array<std::string_view, N>& words, std::string_view text) {
  for (size_t i = 0; i < N; ++i)
    if (words[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}

/// The state's types are those of `init`, and one iteration yields as many values.
inline bool has_free_state(Combine combine) {
  return combine == Combine::serial;
}
inline size_t yield_count(const Reduction& r) {
  return has_free_state(r.combine) ? r.init.size() : static_cast<size_t>(contribution_size(r.combine));
}
inline size_t state_count(const Reduction& r) {
  return has_free_state(r.combine) ? r.init.size() : static_cast<size_t>(state_size(r.combine));
}
/// Type of one component of the state. `yielded` must be filled in.
inline DType state_type(const Kernel& kernel, const Reduction& r, size_t component) {
  if (has_free_state(r.combine)) return kernel.types[r.init[component]];
  return kernel.types[r.yielded[component]];
}

}  // namespace braze::loops
