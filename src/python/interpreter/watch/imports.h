// python/interpreter/watch/imports.h: import statements, of modules that are loaded.
#pragma once

#include <optional>
#include <string>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Import statements.
class Imports final : Domain {
 public:
  using Domain::Domain;

  /// Of a module that is loaded: what sys.modules holds. Packages are asked for the names that are imported from
  /// them, by code that is not understood.
  bool import_module(Activation& a, int arg);

 private:
  std::optional<std::string> imported_name(Frame* frame, PyObject* name, PyObject* level);
};

}  // namespace braze::interpreter
