// python/compile/settings.h: how one function is compiled.
#pragma once

#include <cstddef>
#include <memory>

#include "python/compile/backend.h"
#include "python/compile/size_history.h"
#include "python/interpreter/watch/break_reasons.h"

namespace braze::python {

struct Settings {
  bool fullgraph = false;      ///< What cannot be captured whole is an error.
  size_t recompile_limit = 8;  ///< Programs for one call, or one place in a function; then it runs natively there.
  size_t cache_size_limit = 64;          ///< Programs for all places of one code object; likewise.
  bool suppress_errors = false;          ///< After a defect of braze a call runs natively, with a warning.
  Dynamic dynamic = Dynamic::automatic;  ///< Whether sizes may be symbols.
  bool reads_scalars = false;            ///< A graph goes on where numbers are read of tensors' elements, ...
  bool reads_shapes = false;             ///< ... and where these decide a shape.
  bool reads_branches = true;            ///< `if tensor:` is such a read of a number.
  std::shared_ptr<const Backend> backend;

  /// What is read there is asked for in Python between two programs, which count as parts of one graph.
  bool goes_on_after(interpreter::Break why) const;
};

/// \param values  None, or a dict with any of "fullgraph", "recompile_limit", "cache_size_limit", "dynamic",
///                "suppress_errors", "capture_scalar_outputs", "capture_dynamic_output_shape_ops",
///                "branches_on_values" and "backend" (see make_backend). Throws UserError for other names and for
///                values of the wrong kind.
Settings make_settings(py::handle values);

}  // namespace braze::python
