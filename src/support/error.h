// support/error.h: the two kinds of error that braze raises.
//
// UserError: the user asked for something that cannot be; the text says what was done, where, and what to do
// instead. InternalError: braze broke one of its own rules; the text says which. A graph break is neither.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace braze {

/// Concatenates everything that has an `operator<<`.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// What the user did cannot be done. Python sees it as `braze.Error` (a RuntimeError), or as `kind` names.
class UserError : public std::runtime_error {
 public:
  enum class Kind { runtime, type, value, index };
  explicit UserError(const std::string& what, Kind kind = Kind::runtime) : std::runtime_error(what), kind(kind) {}
  Kind kind;
};

/// A broken invariant of braze itself.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Never inlined: keeps the failure path out of hot code.
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

}  // namespace braze

/// Asserts an invariant in every build; further arguments are concatenated into the message.
#define BRAZE_CHECK(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::braze::fail_check(#condition, __FILE__, __LINE__, ::braze::concat(__VA_ARGS__)); \
  } while (false)
