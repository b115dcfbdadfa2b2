// python/source.h: the user's line, for graphs and messages.
#pragma once

#include <memory>
#include <string>

namespace braze::python {

/// Sets capture's source hook. Frames of files below `torch_folder` and `braze_folder` are not the user's.
void install_source_hook(std::string torch_folder, std::string braze_folder);

/// While it lives, the hook answers on this thread; it keeps what it learnt about code objects. Nests.
class SourceScope {
 public:
  SourceScope();
  ~SourceScope();
  SourceScope(const SourceScope&) = delete;
  SourceScope& operator=(const SourceScope&) = delete;

 private:
  struct Cache;
  friend struct SourceHook;
  std::unique_ptr<Cache> cache_;
  Cache* outer_;
};

}  // namespace braze::python
