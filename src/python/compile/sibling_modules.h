// python/compile/sibling_modules.h: whether a module is one of several of its class, which share the code of their
// frames.
#pragma once

#include <unordered_map>

#include "python/interpreter/frame_run.h"

namespace braze::python {

/// Of one call. A segment of a frame that is given one layer of several would soon run for another one.
class SiblingModules {
 public:
  /// \param outermost  the frame of the call. Read when it is first asked for; runs no code of the user's.
  explicit SiblingModules(interpreter::Frame* outermost) : outermost_(outermost) {}

  /// One of the frame's variables is a module, and the outermost frame's lead to others of its class.
  bool reach(interpreter::Frame* frame);

 private:
  void count();

  interpreter::Frame* outermost_;
  bool is_counted_ = false;
  std::unordered_map<PyTypeObject*, int> counts_;  ///< Classes live as long as the modules.
};

}  // namespace braze::python
