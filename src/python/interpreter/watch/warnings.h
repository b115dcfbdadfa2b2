// python/interpreter/watch/warnings.h: warnings.warn(), which a replay calls where the run has.
//
// The run does without. A replay warns under the place in the source that the run has found, so that filters, and
// what was shown before, decide as they do natively: warnings.warn_explicit(). Guards say that no filter makes an
// exception of it, and that what shows it is that module's own, or the list of `catch_warnings(record=True)`, which
// the run must not have read.
#pragma once

#include <optional>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

/// An effect that warns. \returns the list that took the warning in the run, only to be compared; null: none did.
PyObject* list_of_warnings(PyObject* function);

class Warnings final : Domain {
 public:
  using Domain::Domain;

  /// \param arguments  those of warnings.warn(), the ones by keyword last.
  bool warn(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  /// _warnings._filters_mutated(), by which what was shown before is forgotten.
  bool change_filters(PyObject* function);

 private:
  struct Given {
    PyObject *message = nullptr, *category = nullptr, *level = nullptr;
  };
  std::optional<Given> given(PyObject* const* arguments, Py_ssize_t count) const;
  /// The run has changed what decides about warnings: by the end of the replay that is put back.
  bool has_changed_filters() const;
  bool have_filters_moved() const;
  /// (globals, file name, line) of the frame so many levels up; null: the run does not reach so far.
  guards::Ref place_of(int level) const;
};

}  // namespace braze::interpreter
