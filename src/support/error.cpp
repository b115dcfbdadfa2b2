#include "support/error.h"

namespace braze {

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(concat("braze internal error at ", file, ":", line, ": ", message, " (", condition,
                             "). Please report this with the program that caused it."));
}

}  // namespace braze
