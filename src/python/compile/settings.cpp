// python/compile/settings.cpp
#include "python/compile/settings.h"

#include "passes/pipeline.h"
#include "python/compile/value_reads.h"
#include "support/error.h"
#include "support/switches.h"
#include "target/target.h"

namespace braze::python {

Settings make_settings(py::handle values) {
  // A capture that is refused runs eagerly: what is misspelt in the environment is told here.
  passes::check_switches();
  if (!switches::text(switches::isa).empty()) Target::host();
  Settings settings;
  py::object backend = py::none();
  if (values && !values.is_none()) {
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(values)) {
      const auto name = key.cast<std::string>();
      if (name == "fullgraph") {
        settings.fullgraph = value.cast<bool>();
      } else if (name == "recompile_limit") {
        settings.recompile_limit = value.cast<size_t>();
      } else if (name == "cache_size_limit") {
        settings.cache_size_limit = value.cast<size_t>();
      } else if (name == "suppress_errors") {
        settings.suppress_errors = value.cast<bool>();
      } else if (name == "capture_scalar_outputs") {
        settings.reads_scalars = value.cast<bool>();
      } else if (name == "capture_dynamic_output_shape_ops") {
        settings.reads_shapes = value.cast<bool>();
      } else if (name == "branches_on_values") {
        settings.reads_branches = value.cast<bool>();
      } else if (name == "dynamic") {
        settings.dynamic = value.is_none()      ? Dynamic::automatic
                           : value.cast<bool>() ? Dynamic::always
                                                : Dynamic::never;
      } else if (name == "backend") {
        backend = py::reinterpret_borrow<py::object>(value);
      } else {
        throw UserError(concat("braze.compile has no setting \"", name, "\""), UserError::Kind::type);
      }
    }
  }
  settings.backend = make_backend(backend);
  return settings;
}

bool Settings::goes_on_after(interpreter::Break why) const {
  switch (read_at(why)) {
    case DataRead::none: return false;
    case DataRead::scalar: return reads_scalars && (reads_branches || why != interpreter::Break::branch_on_tensor);
    case DataRead::shape: return reads_shapes;
  }
  return false;
}

}  // namespace braze::python
