#include "python/compile/announce.h"

#include "python/compile/events.h"
#include "support/error.h"

namespace braze::python {

void announce(const Specialisation& one) {
  const auto where = [&] { return concat(one.begins.file, ":", one.begins.line, ": ", one.name, "\n"); };
  if (is_enabled(Event::guards)) {
    std::string text = where();
    for (const std::string& guard : one.guards.texts()) text += "  " + guard + "\n";
    emit(Event::guards, text);
  }
  if (is_enabled(Event::graph_code)) emit(Event::graph_code, where() + one.program->code("graph"));
}

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) < 0) PyErr_Clear();
}

}  // namespace braze::python
