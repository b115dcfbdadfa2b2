// capture/own_calls.h: operators that are called while tracing, but not by the traced program.
//
// To learn shapes the tracer asks PyTorch's Meta kernels, some of which are Python functions. Who watches the
// program's Python must not take them for a part of it.
#pragma once

#include <memory>

namespace braze::capture {

/// Called before such an operator, on its thread; what it returns is let go of afterwards. Must not throw.
using OwnCallHook = std::shared_ptr<void> (*)();
/// Set by the Python binding, before the first trace.
void set_own_call_hook(OwnCallHook hook);

/// While it lives, operators are braze's own calls.
class OwnCalls {
 public:
  OwnCalls();
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;

 private:
  std::shared_ptr<void> state_;
};

}  // namespace braze::capture
