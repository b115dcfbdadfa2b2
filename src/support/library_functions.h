// support/library_functions.h: the functions of an opened library, each by its name.
#pragma once

#include <dlfcn.h>

namespace braze {

class LibraryFunctions {
 public:
  /// \param library  of dlopen(), which stays open as long as what is found here is called.
  explicit LibraryFunctions(void* library) : library_(library) {}

  /// Null where the library has none of that name, which missing() remembers.
  template <typename Result, typename... Arguments>
  void find(Result (*&function)(Arguments...), const char* name) {
    function = reinterpret_cast<Result (*)(Arguments...)>(dlsym(library_, name));
    if (!function && !missing_) missing_ = name;
  }

  /// The first name that was not found; null: all were.
  const char* missing() const { return missing_; }

 private:
  void* const library_;
  const char* missing_ = nullptr;
};

}  // namespace braze
