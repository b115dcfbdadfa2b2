#include "support/phases.h"

#include <cstring>

namespace braze {

void PhaseTimes::add(const char* name, int64_t nanoseconds) {
  for (Row& row : rows_) {
    if (row.name == name) {
      row.nanoseconds += nanoseconds;
      ++row.entered;
      return;
    }
  }
  rows_.push_back({name, nanoseconds, 1});
}

int64_t PhaseTimes::total() const {
  int64_t sum = 0;
  for (const Row& row : rows_)
    if (row.name.find('/') == std::string::npos) sum += row.nanoseconds;
  return sum;
}

}  // namespace braze
