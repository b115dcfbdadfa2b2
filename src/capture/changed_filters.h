// capture/changed_filters.h: a trace has changed what becomes of warnings (`with warnings.catch_warnings()`).
//
// A program warns under the filters that hold when it is called. Those that the traced code sets for a while are
// set when the program has run, so that an operator which may warn in between ends the graph; it runs natively.
#pragma once

namespace braze::capture {

/// While it lives on a thread, nothing is changed, until somebody notes it.
class FiltersAtBegin {
 public:
  FiltersAtBegin();
  ~FiltersAtBegin();
  FiltersAtBegin(const FiltersAtBegin&) = delete;
  FiltersAtBegin& operator=(const FiltersAtBegin&) = delete;

 private:
  const bool outer_;
};

void note_changed_filters(bool are_changed);
bool have_filters_changed();

}  // namespace braze::capture
