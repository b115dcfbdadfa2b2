#include "support/phases.h"

#include <cstring>
#include <new>

namespace braze {

// Here and not in the header: all libraries share one.
std::atomic<PhaseObserver*> PhaseObserver::current{nullptr};

// Timers add at their end, also while an exception is on its way: without memory a phase just goes unmeasured.
void PhaseTimes::add(const char* name, int64_t nanoseconds, const Allocations& allocations) try {
  for (Row& row : rows_) {
    if (row.name == name) {
      row.nanoseconds += nanoseconds;
      ++row.entered;
      row.allocations += allocations;
      return;
    }
  }
  rows_.push_back({name, nanoseconds, 1, allocations});
} catch (const std::bad_alloc&) {
}

namespace {

bool is_part_of_another(const PhaseTimes::Row& row) {
  return row.name.find('/') != std::string::npos;
}

}  // namespace

int64_t PhaseTimes::total() const {
  int64_t sum = 0;
  for (const Row& row : rows_)
    if (!is_part_of_another(row)) sum += row.nanoseconds;
  return sum;
}

Allocations PhaseTimes::total_allocations() const {
  Allocations sum;
  for (const Row& row : rows_)
    if (!is_part_of_another(row)) sum += row.allocations;
  return sum;
}

}  // namespace braze
