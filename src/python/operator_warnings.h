// python/operator_warnings.h: warnings of PyTorch's C++ operators.
#pragma once

#include <torch/csrc/Exceptions.h>

namespace braze::python {

/// Runs `body`; what operators warn of meanwhile becomes Python's. Throws python_error where a filter makes an
/// exception of it.
template <typename Body>
void with_operator_warnings(Body&& body) {
  torch::PyWarningHandler handler;
  try {
    body();
  } catch (...) {
    handler.set_in_exception();
    throw;
  }
}

}  // namespace braze::python
