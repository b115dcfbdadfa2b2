#include "python/compile/announce.h"

#include <pybind11/pybind11.h>

#include "python/compile/events.h"
#include "python/imported.h"
#include "python/interpreter/evaluate.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

void announce(const Specialisation& one) {
  const auto where = [&] { return concat(one.begins.file, ":", one.begins.line, ": ", one.name, "\n"); };
  if (is_enabled(Event::guards)) {
    std::string text = where();
    for (const std::string& guard : one.guards.texts()) text += "  " + guard + "\n";
    emit(Event::guards, text);
  }
  if (is_enabled(Event::graph_code)) emit(Event::graph_code, where() + one.program->code("graph"));
}

void log_warning(const std::string& text) {
  const interpreter::Pause undriven;
  try {
    imported("logging").attr("getLogger")("braze").attr("warning")("%s", text);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("braze");
  }
}

void warn(const std::string& text) {
  const interpreter::Pause undriven;
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) < 0) PyErr_Clear();
}

}  // namespace braze::python
