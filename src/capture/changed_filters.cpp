// capture/changed_filters.cpp
#include "capture/changed_filters.h"

#include <utility>

namespace braze::capture {

namespace {

thread_local bool changed = false;

}  // namespace

FiltersAtBegin::FiltersAtBegin() : outer_(std::exchange(changed, false)) {}

FiltersAtBegin::~FiltersAtBegin() {
  changed = outer_;
}

void note_changed_filters(bool are_changed) {
  changed = are_changed;
}

bool have_filters_changed() {
  return changed;
}

}  // namespace braze::capture
