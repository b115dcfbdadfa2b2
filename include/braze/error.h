// braze/error.h: what braze throws.
//
// Exceptions of the user's function, and of PyTorch's operators in it, pass through unchanged. A defect of braze
// itself is a std::logic_error that asks for a report.
#pragma once

#include <stdexcept>

#include "braze/export.h"

namespace braze {

/// Something was asked that cannot be: a traced program called with other arguments than it was traced with, a
/// function that cannot be traced, a stage that does not exist. The text says what to do instead.
class BRAZE_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace braze
