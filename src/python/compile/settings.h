// python/compile/settings.h: how one function is compiled.
#pragma once

#include <cstddef>
#include <memory>

#include "python/compile/backend.h"

namespace braze::python {

struct Settings {
  bool fullgraph = false;      ///< What cannot be captured whole is an error.
  size_t recompile_limit = 8;  ///< Programs for one call, or one place in a function; then it runs natively there.
  std::shared_ptr<const Backend> backend;
};

/// \param values  None, or a dict with any of "fullgraph", "recompile_limit" and "backend" (None, "eager" or a
///                callable). Throws UserError for other names and for values of the wrong kind.
Settings make_settings(py::handle values);

}  // namespace braze::python
