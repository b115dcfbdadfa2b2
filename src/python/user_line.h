// python/user_line.h: the user's line, for graphs and messages.
#pragma once

#include <Python.h>

#include <memory>
#include <string>

namespace braze::python {

/// Sets capture's source hook. Frames of files below `torch_folder` and `braze_folder` are not the user's.
void install_source_hook(std::string torch_folder, std::string braze_folder);

/// Of a file below `braze_folder`: what captures run in the place of other functions is none of the user's code.
bool is_own_code(PyCodeObject* code);

/// While it lives, the hook answers on this thread; it keeps what it learnt about code objects. Nests.
class UserLineScope {
 public:
  UserLineScope();
  ~UserLineScope();
  UserLineScope(const UserLineScope&) = delete;
  UserLineScope& operator=(const UserLineScope&) = delete;

 private:
  struct Cache;
  friend struct UserLineHook;
  std::unique_ptr<Cache> cache_;
  Cache* outer_;
};

}  // namespace braze::python
