#include "runtime/profiler_range.h"

#include <array>
#include <memory>

#include "support/error.h"
#include "support/phases.h"

namespace braze::runtime {

namespace {

class PhaseRanges final : public PhaseObserver {
 public:
  void begin(const char* name) noexcept override try {
    Open& open = ranges();
    if (open.depth < open.ranges.size() && is_profiled())
      open.ranges[open.depth] = std::make_unique<ProfilerRange>(concat("braze::compile ", name));
    ++open.depth;
  } catch (...) {
    // Whatever a profiler throws, compilation goes on without its range.
    ++ranges().depth;
  }
  void end() noexcept override {
    Open& open = ranges();
    if (--open.depth < open.ranges.size()) open.ranges[open.depth].reset();
  }

 private:
  /// Phases of this thread that have begun and not ended; those beyond have no range.
  struct Open {
    size_t depth = 0;
    std::array<std::unique_ptr<ProfilerRange>, 16> ranges;
  };
  static Open& ranges() {
    thread_local Open open;
    return open;
  }
};

}  // namespace

void install_phase_ranges() {
  static PhaseRanges ranges;
  PhaseObserver::current.store(&ranges, std::memory_order_release);
}

}  // namespace braze::runtime
