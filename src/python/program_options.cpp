#include "python/program_options.h"

#include <algorithm>
#include <string>
#include <variant>

#include "support/error.h"

namespace braze::python {

namespace py = pybind11;
using runtime::ProgramOptions;

namespace {

struct Row {
  std::string_view name;
  std::variant<bool ProgramOptions::*, int ProgramOptions::*> member;
};

constexpr Row rows[] = {
    {"fusion", &ProgramOptions::fuse},
    {"emulate_precision_casts", &ProgramOptions::emulate_precision_casts},
    {"disk_cache", &ProgramOptions::use_disk_cache},
    {"verify", &ProgramOptions::verify},
    {"prepack_weights", &ProgramOptions::prepack_weights},
    {"max_autotune", &ProgramOptions::max_autotune},
    {"cudagraphs", &ProgramOptions::cuda_graphs},
    {"compile_threads", &ProgramOptions::compile_threads},
};

}  // namespace

ProgramOptions program_options(const py::dict& settings) {
  ProgramOptions options;
  for (const auto& [key, value] : settings) {
    const auto name = key.cast<std::string>();
    const Row* row = std::ranges::find(rows, name, &Row::name);
    if (row == std::end(rows))
      throw UserError(concat("braze: the code generator has no option \"", name, "\""), UserError::Kind::value);
    std::visit([&](auto member) { options.*member = value.cast<std::decay_t<decltype(options.*member)>>(); },
               row->member);
  }
  return options;
}

}  // namespace braze::python
