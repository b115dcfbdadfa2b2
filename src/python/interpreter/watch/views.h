// python/interpreter/watch/views.h: views of dicts, and proxies of mappings.
#pragma once

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// Views of dicts, and proxies of mappings.
class Views final : Domain {
 public:
  using Domain::Domain;

  /// The dict behind a view that the run made, or behind a proxy. Null for all else.
  PyObject* dict_behind(PyObject* view);
  /// `item in view`. Of keys it is what the dict says, the others are compared one after the other.
  bool view_contains(PyObject* view, PyObject* dict, PyObject* item);
  /// `&`, `|`, `-` and `^` of the keys of a dict: its values do not matter. False, and no abandonment, for anything
  /// else.
  bool combines_keys(PyObject* left, PyObject* right, int operation);
};

}  // namespace braze::interpreter
